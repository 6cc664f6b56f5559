// Package orders makes calls of one identity, from several Dedupers and in all ways, in every order
// of their round trips, with faults, Resets and sweeps among them. It judges each order.
package orders

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/faultproxy/schedule"
)

// schema is the tables of effects. An effect adds a row. If it may fail, it raises an error from
// its caller's given run on. The sequences count runs, also those that were rolled back.
const schema = `
CREATE SCHEMA orders;
CREATE TABLE orders.effects (key text NOT NULL, caller int NOT NULL, run bigint NOT NULL);
CREATE INDEX ON orders.effects (key);
CREATE SEQUENCE orders.runs;
CREATE SEQUENCE orders.tries_0;
CREATE SEQUENCE orders.tries_1;
CREATE SEQUENCE orders.tries_2;
CREATE FUNCTION orders.effect(key text, caller int, fails bigint, INOUT raises boolean, OUT run bigint) LANGUAGE plpgsql AS $$
BEGIN
	run := nextval('orders.runs');
	INSERT INTO orders.effects VALUES (key, caller, run);
	IF nextval('orders.tries_' || caller) >= fails THEN
		IF raises THEN RAISE EXCEPTION 'the effect has failed' USING ERRCODE = 'P0EFF'; END IF;
		raises := true;
	ELSE
		raises := false;
	END IF;
END $$`

const (
	scope, tool = "orders", "effect"
	callers     = 3
	looks       = 2
	// atLeisure is longer than any run, so that no limit of the library decides a run.
	atLeisure = time.Hour
)

// Theatre is a database with three callers. Each has its own Deduper and proxy.
type Theatre struct {
	Callers []*Caller
	bug     Bug
	own     *pgxpool.Pool
	proxies []*faultproxy.Proxy
	keys    int
}

// Caller is one of the three.
type Caller struct {
	Number int
	Pool   *pgxpool.Pool
	D      *dedup.Deduper
	// Once allows a single attempt of each call.
	Once *dedup.Deduper
}

// Bug changes a run, to show that the change is noticed. The zero Bug changes nothing.
type Bug struct {
	// Rewrite changes the text of a statement on its way to the server.
	Rewrite func(sql string) string
	// Call makes a call instead of the correct way.
	Call func(ctx context.Context, c *Caller, right Way, job Job) (Told, error)
	// Sweep sweeps instead of [dedup.Deduper.Sweep].
	Sweep func(ctx context.Context, c *Caller) error
}

// Open opens a theatre in a database that has the library's tables and nothing else.
func Open(ctx context.Context, url string, bug Bug) (t *Theatre, err error) {
	t = &Theatre{bug: bug}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if t.own, err = pgxpool.New(ctx, url); err != nil {
		return t, err
	}
	if _, err = t.own.Exec(ctx, schema); err != nil {
		return t, fmt.Errorf("preparing the database: %w", err)
	}
	for n := range callers {
		proxy, err := faultproxy.New(url)
		if err != nil {
			return t, err
		}
		t.proxies = append(t.proxies, proxy)
		proxy.Rewrite(bug.Rewrite)
		c, err := newCaller(ctx, n, proxy.URL())
		if err != nil {
			return t, err
		}
		t.Callers = append(t.Callers, c)
		for _, w := range Ways { // examines the table and prepares the statements
			t.keys++
			if _, err := w.Call(ctx, c, t.job(n, 0)); err != nil {
				return t, fmt.Errorf("warming up %s: %w", w.Name, err)
			}
		}
		t.keys++
		job := t.job(n, 0)
		if _, err := dedup.Do(ctx, c.Once, job.Call, job.effect); err != nil {
			return t, fmt.Errorf("warming up: %w", err)
		}
	}
	return t, nil
}

func newCaller(ctx context.Context, n int, url string) (c *Caller, err error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 4 // one is used; the others replace connections that a fault broke
	c = &Caller{Number: n}
	if c.Pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	opts := dedup.Options{
		CommitTimeout: atLeisure, IdleTimeout: atLeisure,
		Retry: dedup.RetryPolicy{BaseDelay: time.Nanosecond, MaxDelay: time.Nanosecond},
	}
	c.D, err = dedup.New(c.Pool, &opts)
	if err == nil {
		opts.Retry.MaxAttempts = 1
		c.Once, err = dedup.New(c.Pool, &opts)
	}
	return c, err
}

// Close closes the theatre. The database stays.
func (t *Theatre) Close() {
	for _, c := range t.Callers {
		c.Pool.Close()
	}
	for _, p := range t.proxies {
		p.Close()
	}
	if t.own != nil {
		t.own.Close()
	}
}

// Explore plays a mix in every order and passes each wrong order to wrong. It ends with the first
// if wrong is nil or returns false.
func (t *Theatre) Explore(ctx context.Context, m Mix, wrong func(*schedule.Wrong) bool) (schedule.Count, error) {
	return t.play(ctx, m, &schedule.Explorer{}, wrong)
}

// Draw is Explore for a number of drawn orders.
func (t *Theatre) Draw(ctx context.Context, m Mix, seed uint64, n int, wrong func(*schedule.Wrong) bool) (schedule.Count, error) {
	return t.play(ctx, m, &schedule.Explorer{Draw: rand.New(rand.NewPCG(seed, 0)), Limit: n}, wrong)
}

func (t *Theatre) play(ctx context.Context, m Mix, e *schedule.Explorer, wrong func(*schedule.Wrong) bool) (schedule.Count, error) {
	e.Proxies, e.Own, e.Looks, e.Faults, e.Shares, e.Renew = t.proxies, t.own, looks, m.Faults, shares, t.renew
	count, err := e.Explore(ctx, func(ctx context.Context) (schedule.Play, error) { return t.begin(ctx, m) }, wrong)
	if err != nil {
		err = fmt.Errorf("%v: %w", m, err)
	}
	return count, err
}

func (t *Theatre) renew() {
	for _, c := range t.Callers {
		c.Pool.Reset()
	}
}

// shares reports whether a statement may touch the identity. An effect only touches its new row.
func shares(sql string) bool {
	return strings.Contains(sql, "tool_dedup") || strings.Contains(sql, "advisory")
}

// job is a call of the current key. fails is the first run of its effect that fails, 0 for never.
func (t *Theatre) job(caller int, fails int64) Job {
	return Job{
		Call:   dedup.Call{Scope: scope, Tool: tool, Key: fmt.Sprint("key ", t.keys), Args: 1},
		caller: caller, fails: cmp.Or(fails, math.MaxInt64),
	}
}

// begin prepares a run.
func (t *Theatre) begin(ctx context.Context, m Mix) (p schedule.Play, err error) {
	t.keys++
	b := &books{mix: m, own: t.own, key: t.job(0, 0).Call.Key}
	if err := b.open(ctx); err != nil {
		return p, err
	}
	for n, w := range m.Ways {
		c, job := t.Callers[n], t.job(n, m.Fails)
		p.Callers = append(p.Callers, func(ctx context.Context, turn *schedule.Turn) {
			turn.Wait()
			b.call(ctx, c, job, turn, t.call(w))
			if n == 0 && m.Twice {
				turn.Wait()
				b.call(ctx, c, job, turn, t.call(w))
			}
		})
	}
	if m.Beside != "" {
		c := t.Callers[len(m.Ways)]
		p.Callers = append(p.Callers, func(ctx context.Context, turn *schedule.Turn) {
			turn.Wait()
			if m.Beside == Reset {
				b.reset(ctx, c)
				return
			}
			b.sweep(ctx, c, t.bug.Sweep)
		})
	}
	p.Observe, p.Judge = b.observe, b.judge
	return p, nil
}

// call makes a call by its way, or by the bug.
func (t *Theatre) call(w Way) func(context.Context, *Caller, Job) (Told, error) {
	if t.bug.Call == nil {
		return w.Call
	}
	return func(ctx context.Context, c *Caller, job Job) (Told, error) { return t.bug.Call(ctx, c, w, job) }
}
