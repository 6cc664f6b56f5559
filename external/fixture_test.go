package external_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

type in struct {
	Order int `json:"order"`
}

type out struct {
	ID string `json:"id"`
}

func refOf(o out) string { return o.ID }

// fixture is a process with Tools, on a database that other fixtures may share.
type fixture struct {
	t     *testing.T
	ctx   context.Context
	pool  *pgxpool.Pool
	d     *dedup.Deduper
	tools *external.Tools
	steps *steps
	noRef bool         // the tools have no Ref
	ahead atomic.Int64 // how far the process's clock is ahead, as after a pause
}

// lease is so long that it never ends on a busy machine. elapse moves operations past it.
const lease = 15 * time.Second

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return process(t, pgtest.New(t).Pool(t))
}

// process returns another process on the pool's database.
func process(t *testing.T, pool *pgxpool.Pool) *fixture {
	t.Helper()
	return processWith(t, pool, &external.Options{Lease: lease})
}

func processWith(t *testing.T, pool *pgxpool.Pool, opts *external.Options) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: t.Context(), pool: pool, steps: &steps{reached: map[external.EventKind]int{}}}
	var err error
	f.d, err = dedup.New(pool, &dedup.Options{Tracer: f.steps})
	require.NoError(t, err)
	f.tools, err = external.New(f.d, opts)
	require.NoError(t, err)
	external.SetClock(f.tools, func() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		_ = f.tools.Close(ctx)
	})
	return f
}

// proxied returns a process whose connections go through a proxy.
func proxied(t *testing.T, configure func(*pgxpool.Config)) (*fixture, *faultproxy.Proxy) {
	t.Helper()
	proxy, err := faultproxy.New(pgtest.New(t).URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	config, err := pgxpool.ParseConfig(proxy.URL())
	require.NoError(t, err)
	if configure != nil {
		configure(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return process(t, pool), proxy
}

func add(f *fixture, t external.Tool[in, out]) *external.Handle[in, out] {
	f.t.Helper()
	if t.Name == "" {
		t.Name = "charge"
	}
	if t.Ref == nil && !f.noRef {
		t.Ref = refOf
	}
	h, err := external.Add(f.tools, t)
	require.NoError(f.t, err)
	return h
}

func call(key string) dedup.Call { return dedup.Call{Scope: "acme", Key: key} }

// accept accepts an operation in a transaction of its own and commits.
func accept(f *fixture, h *external.Handle[in, out], key string, order int) {
	f.t.Helper()
	require.NoError(f.t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
		_, err := h.Accept(f.ctx, tx, call(key), in{order})
		return err
	}))
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(f.ctx, sql, args...)
	require.NoError(f.t, err)
}

// begin begins a transaction, which is rolled back if it is open at the end of the test.
func (f *fixture) begin(opts ...pgx.TxOptions) pgx.Tx {
	f.t.Helper()
	tx, err := f.pool.BeginTx(f.ctx, append(opts, pgx.TxOptions{})[0])
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(f.ctx)) })
	return tx
}

// advance calls Advance for an operation of the tool "charge".
func (f *fixture) advance(key string) external.Operation {
	f.t.Helper()
	op, err := f.tools.Advance(f.ctx, "acme", "charge", key)
	require.NoError(f.t, err)
	return op
}

// lookup returns the operation of the tool "charge".
func (f *fixture) lookup(key string) external.Operation {
	f.t.Helper()
	status, err := f.tools.Status(f.ctx, "acme", "charge", key)
	require.NoError(f.t, err)
	return status.Operation
}

// until advances an operation until it is in a state.
func (f *fixture) until(key string, want external.State) external.Operation {
	f.t.Helper()
	for {
		op := f.advance(key)
		if op.State == want {
			return op
		}
		f.untilDue(op)
	}
}

// parked returns the operations that need an operator.
func (f *fixture) parked(ctx context.Context) []external.Operation {
	f.t.Helper()
	ops, err := f.tools.Parked(ctx, f.pool, external.List{Limit: 1000})
	require.NoError(f.t, err)
	return ops
}

// untilDue moves the time until an operation is due.
func (f *fixture) untilDue(op external.Operation) {
	f.t.Helper()
	require.False(f.t, op.Due.IsZero(), "nothing is due: %+v", op)
	f.elapse(op.Key, op.Due.Sub(op.Now))
}

// nextAct returns the pause with which an act ended. The act's fence is the time of its end.
func nextAct(op external.Operation) time.Duration {
	return op.Due.Sub(time.UnixMicro(op.Fence))
}

// elapse moves the time of this process, and of the operations with a key, without waiting: it
// moves their times into the past.
func (f *fixture) elapse(key string, d time.Duration) {
	f.t.Helper()
	require.NoError(f.t, elapse(f.ctx, f.pool, pgx.Identifier{f.d.Options().Schema, "tool_effect"}.Sanitize(), key, d))
	f.ahead.Add(int64(d)) // last, because an attempt whose lease ends gives up and others then lock the row
}

// elapse uses immutable functions only, as Citus demands.
func elapse(ctx context.Context, pool *pgxpool.Pool, table, key string, d time.Duration) error {
	earlier := func(column string) string {
		return column + ` = (` + column + ` AT TIME ZONE 'UTC' - $1::interval) AT TIME ZONE 'UTC'`
	}
	_, err := pool.Exec(ctx, `UPDATE `+table+` SET `+earlier("due_at")+`, `+earlier("sent_at")+`, `+earlier("sent_until")+` WHERE key = $2`, d, key)
	return err
}

const anyWaits = `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

// untilWaiting returns when a session of the database waits for a lock.
func (f *fixture) untilWaiting() {
	f.t.Helper()
	for waits := false; !waits; {
		require.NoError(f.t, f.pool.QueryRow(f.ctx, anyWaits).Scan(&waits))
	}
}

// steps records the steps that operations take, and can stop at one.
type steps struct {
	mu      sync.Mutex
	reached map[external.EventKind]int
	at      func(external.Event)
	retry   func()
}

func (s *steps) onRetry(retry func()) { s.retry = retry }

func (*steps) TraceCallStart(ctx context.Context, _ dedup.CallData) context.Context { return ctx }

func (*steps) TraceCallEnd(context.Context, dedup.CallEndData) {}

func (s *steps) TraceEvent(_ context.Context, event dedup.Event) {
	switch e := event.(type) {
	case dedup.RetriedData:
		if s.retry != nil {
			s.retry()
		}
	case external.Event:
		s.mu.Lock()
		s.reached[e.Kind]++
		at := s.at
		s.mu.Unlock()
		if at != nil {
			at(e)
		}
	}
}

func (s *steps) count(step external.EventKind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached[step]
}

func (s *steps) stopAt(at func(external.Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = at
}

// provider keeps a book of its effects.
type provider struct {
	mu     sync.Mutex
	done   []out
	byKey  map[string]out
	byCall map[int][]out
}

func newProvider() *provider {
	return &provider{byKey: map[string]out{}, byCall: map[int][]out{}}
}

// act carries out an order. A known key gets the same reply again.
func (p *provider) act(key string, order int) out {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o, ok := p.byKey[key]; ok && key != "" {
		return o
	}
	o := out{fmt.Sprintf("ch_%d", len(p.done)+1)}
	p.done = append(p.done, o)
	p.byKey[key] = o
	p.byCall[order] = append(p.byCall[order], o)
	return o
}

func (p *provider) find(order int) []out {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]out{}, p.byCall[order]...)
}

// perform and look are the functions of a tool without a key.
func (p *provider) perform(_ context.Context, _ external.Attempt, i in) (out, error) {
	return p.act("", i.Order), nil
}

func (p *provider) look(_ context.Context, _ external.Attempt, i in) ([]out, error) {
	return p.find(i.Order), nil
}

func (p *provider) effects() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.done)
}

var errLost = errors.New("the answer is lost")

func losing(context.Context, external.Attempt, in) (out, error) { return out{}, errLost }

// answer is a provider's reply to an attempt or a look-up.
type answer struct {
	outs []out
	err  error
}

// is returns a reply with the ids of effects.
func is(ids ...string) (a answer) {
	for _, id := range ids {
		a.outs = append(a.outs, out{id})
	}
	return a
}

func fails(err error) answer { return answer{err: err} }

// With these errors the callback does not reply: it panics, or hangs until its context ends.
var errPanics, errHangs = errors.New("a bug"), errors.New("hangs")

// script is a provider of one operation with prepared replies to attempts and look-ups. The last
// reply is repeated.
type script struct {
	attempts, looks []answer

	mu           sync.Mutex
	keys         []string // the attempts' keys
	sent, looked int
}

// tool makes the script the provider of a tool. The tool has Find if the script has replies to
// look-ups.
func (s *script) tool(t external.Tool[in, out]) external.Tool[in, out] {
	t.Perform = func(ctx context.Context, a external.Attempt, _ in) (out, error) {
		s.mu.Lock()
		s.keys = append(s.keys, a.Key)
		s.mu.Unlock()
		outs, err := s.next(ctx, s.attempts, &s.sent)
		return append(outs, out{})[0], err
	}
	if s.looks != nil {
		t.Find = func(ctx context.Context, _ external.Attempt, _ in) ([]out, error) {
			return s.next(ctx, s.looks, &s.looked)
		}
	}
	return t
}

func (s *script) next(ctx context.Context, from []answer, n *int) ([]out, error) {
	s.mu.Lock()
	a := from[min(*n, len(from)-1)]
	*n++
	s.mu.Unlock()
	switch a.err {
	case errPanics:
		panic(a.err.Error())
	case errHangs:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return slices.Clone(a.outs), a.err
}

// count returns the numbers of attempts and look-ups.
func (s *script) count() (sent, looked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent, s.looked
}

const ledgerTable = `CREATE TABLE ledger (ordered int, kind text, entry text)`

// makeLedger creates the application's table, to which the tools of ledger write.
func (f *fixture) makeLedger() {
	f.t.Helper()
	f.exec(ledgerTable)
}

// ledger makes Finish and Refused write to the application's table.
func ledger(t external.Tool[in, out]) external.Tool[in, out] {
	write := func(ctx context.Context, tx pgx.Tx, i in, kind, entry string) error {
		_, err := tx.Exec(ctx, `INSERT INTO ledger VALUES ($1, $2, $3)`, i.Order, kind, entry)
		return err
	}
	t.Finish = func(ctx context.Context, tx pgx.Tx, i in, o out) error { return write(ctx, tx, i, "finish", o.ID) }
	t.Refused = func(ctx context.Context, tx pgx.Tx, i in, why error) error {
		return write(ctx, tx, i, "refused", why.Error())
	}
	return t
}

// ledger returns the entries of an order.
func (f *fixture) ledger(order int) (all []string) {
	f.t.Helper()
	rows, err := f.pool.Query(f.ctx, `SELECT kind || ' ' || entry FROM ledger WHERE ordered = $1 ORDER BY 1`, order)
	require.NoError(f.t, err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(f.t, err)
	return all
}

func answering(id string) func(context.Context, external.Attempt, in) (out, error) {
	return func(context.Context, external.Attempt, in) (out, error) { return out{id}, nil }
}

// on creates a trigger on tool_effect that raises an error, or drops the row if code is empty.
func on(f *fixture, event, when, code string) {
	f.t.Helper()
	does := `RETURN NULL`
	if code != "" {
		does = `RAISE EXCEPTION 'a fault' USING ERRCODE = '` + code + `'`
	}
	trigger(f, event, when, "nextval('faults') > 0", does)
}

// failOnce makes one UPDATE that matches a condition fail as if the server were shutting down.
func failOnce(f *fixture, when string) {
	f.t.Helper()
	trigger(f, "UPDATE", "WHEN ("+when+")", "nextval('faults') = 1", `RAISE EXCEPTION 'a fault' USING ERRCODE = '57P01'`)
}

func trigger(f *fixture, event, when, holds, does string) {
	f.t.Helper()
	f.exec(`CREATE SEQUENCE faults;
		CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF ` + holds + ` THEN ` + does + `; END IF; RETURN COALESCE(NEW, OLD); END $$;
		CREATE TRIGGER fault BEFORE ` + event + ` ON tool_effect FOR EACH ROW ` + when + ` EXECUTE FUNCTION fault()`)
}
