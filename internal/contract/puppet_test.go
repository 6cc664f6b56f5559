package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// A puppet is one SQL statement that runs the contract's Go effects, so that DoStatement is tested
// like Do. It calls a function in the database, which sends a NOTICE when it starts. The effect
// then runs with a transaction whose statements the function executes one by one. The function ends
// with the effect's row or error.
const puppetSQL = `SELECT id, title FROM puppet($1::text)`

// puppetSetup needs READ COMMITTED, for a function at a stricter level sees no
// order that is younger than itself.
const puppetSetup = `
CREATE SEQUENCE puppet_runs;
CREATE TABLE puppet_orders (run bigint, step int, sql text, arg text, asks boolean, ends boolean, fails boolean, id int, title text, PRIMARY KEY (run, step));
CREATE FUNCTION puppet(name text) RETURNS TABLE (id int, title text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	o puppet_orders;
	this bigint := nextval('puppet_runs');
	n int := 0;
	got text;
BEGIN
	LOOP
		RAISE NOTICE 'puppet % % % %', name, this, n, got;
		LOOP
			SELECT * INTO o FROM puppet_orders p WHERE p.run = this AND p.step = n;
			EXIT WHEN FOUND;
			PERFORM pg_sleep(0.0005);
		END LOOP;
		IF o.fails THEN RAISE EXCEPTION 'puppet %', this USING ERRCODE = 'PUPPT'; END IF;
		IF o.ends THEN id := o.id; title := o.title; RETURN NEXT; RETURN; END IF;
		IF o.asks THEN EXECUTE o.sql INTO got; ELSE EXECUTE o.sql USING o.arg; END IF;
		n := n + 1;
	END LOOP;
END $$`

// puppeteer runs the effects of one fixture's puppets.
type puppeteer struct {
	orders *pgxpool.Pool

	mu    sync.Mutex
	shows map[string]*show
}

// show is one call whose effect is a puppet.
type show struct {
	p      *puppeteer
	name   string
	effect dedup.Effect[ticket]
	ctx    context.Context

	// Guarded by p.mu.
	run  *puppetRun
	errs map[string]error // of runs that ended in an error, by the message that names the run
	// work is the runs' goroutines, and those waiting for their turn.
	work sync.WaitGroup
}

// puppetRun is one run of the effect: its transaction.
type puppetRun struct {
	pgx.Tx // of which only Exec and QueryRow work

	show *show
	id   string
	step int
	// steps gets what every statement gave, done is closed at the run's end.
	steps  chan string
	done   chan struct{}
	cancel context.CancelFunc
}

var errPuppetGone = errors.New("the puppet has failed, and its statement says why")

func newPuppeteer(t *testing.T, b *bundle) *puppeteer {
	t.Helper()
	b.exec(t, puppetSetup)
	return &puppeteer{orders: b.db.Pool(t), shows: map[string]*show{}}
}

// do is dedup.Do by way of DoStatement.
func (p *puppeteer) do(ctx context.Context, d *dedup.Deduper, c dedup.Call, effect dedup.Effect[ticket]) (dedup.Result[ticket], error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &show{p: p, effect: effect, ctx: ctx, errs: map[string]error{}}
	p.mu.Lock()
	s.name = fmt.Sprint("show", len(p.shows))
	p.shows[s.name] = s
	p.mu.Unlock()

	stmt := dedup.SQL(puppetSQL, s.name)
	stmt.OnError = s.explain
	result, err := dedup.DoStatement[ticket](ctx, d, c, stmt)
	cancel()
	s.work.Wait()
	return result, err
}

// explain gives an effect its own error back.
func (s *show) explain(err error) error {
	var server *pgconn.PgError
	if !errors.As(err, &server) || server.Code != "PUPPT" {
		return err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.errs[server.Message]
}

// notice is called by pgx while it reads the answer to the statement.
func (p *puppeteer) notice(_ *pgconn.PgConn, n *pgconn.Notice) {
	words := strings.SplitN(n.Message, " ", 5)
	if words[0] != "puppet" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shows[words[1]]
	if words[3] != "0" {
		s.run.steps <- words[4]
		return
	}
	before := s.run
	ctx, cancel := context.WithCancel(s.ctx)
	s.run = &puppetRun{show: s, id: words[2], steps: make(chan string, 1), done: make(chan struct{}), cancel: cancel}
	run := s.run
	s.work.Go(func() {
		defer close(run.done)
		defer cancel()
		if before != nil { // its statement has failed
			before.cancel()
			<-before.done
		}
		run.perform(ctx)
	})
}

func (r *puppetRun) perform(ctx context.Context) {
	value, err := r.show.effect(ctx, r)
	if err != nil {
		r.show.p.mu.Lock()
		r.show.errs["puppet "+r.id] = err
		r.show.p.mu.Unlock()
	}
	// A cancelled effect ends as well, and its statement is to know.
	_ = r.order(context.WithoutCancel(ctx), "", nil, false, true, err != nil, value)
}

func (r *puppetRun) order(ctx context.Context, sql string, arg any, asks, ends, fails bool, value ticket) error {
	_, err := r.show.p.orders.Exec(ctx, `INSERT INTO puppet_orders VALUES ($1::text::bigint, $2, $3, $4::text, $5, $6, $7, $8, $9)`,
		r.id, r.step, sql, arg, asks, ends, fails, value.ID, value.Title)
	r.step++
	return err
}

// execute lets the puppet run a statement and returns its answer.
func (r *puppetRun) execute(ctx context.Context, sql string, args []any, asks bool) (string, error) {
	var arg any
	if len(args) > 0 {
		arg = args[0]
	}
	if err := r.order(ctx, sql, arg, asks, false, false, ticket{}); err != nil {
		return "", err
	}
	select {
	case got := <-r.steps:
		return got, nil
	case <-ctx.Done():
		return "", errPuppetGone
	}
}

func (r *puppetRun) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	_, err := r.execute(ctx, sql, args, false)
	return pgconn.CommandTag{}, err
}

func (r *puppetRun) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	got, err := r.execute(ctx, sql, args, true)
	return puppetRow{got, err}
}

// puppetRow is a row of one boolean.
type puppetRow struct {
	text string
	err  error
}

func (r puppetRow) Scan(dest ...any) error {
	if r.err == nil {
		*dest[0].(*bool) = r.text == "t" || r.text == "true"
	}
	return r.err
}

// do makes a call in the profile's way.
func (f *fixture) do(ctx context.Context, d *dedup.Deduper, c dedup.Call, effect dedup.Effect[ticket]) (dedup.Result[ticket], error) {
	if f.puppets == nil {
		return dedup.Do(ctx, d, c, f.profile.through(effect))
	}
	return f.puppets.do(ctx, d, c, effect)
}

// start makes a call on another goroutine.
func (f *fixture) start(ctx context.Context, d *dedup.Deduper, c dedup.Call, effect dedup.Effect[ticket]) <-chan answered {
	return startBy(f.do, ctx, d, c, effect)
}
