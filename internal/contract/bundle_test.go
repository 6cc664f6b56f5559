package contract_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// bundle is the world of most tests: a new database with the record table, and a table of effects
// without a unique index.
type bundle struct {
	db   *pgtest.DB
	pool *pgxpool.Pool
	d    *dedup.Deduper
	// observer is the pool for the test's own reads.
	observer *pgxpool.Pool
}

// limit ends a test that hangs before `go test -timeout` ends them all. The time that
// parallel subtests wait for their turn counts.
const limit = 15 * time.Minute

func setup(t *testing.T, opts *dedup.Options, conf ...func(*pgxpool.Config)) (context.Context, *bundle) {
	t.Helper()
	return setupOn(t, pgtest.New(t), opts, conf...)
}

func setupOn(t *testing.T, db *pgtest.DB, opts *dedup.Options, conf ...func(*pgxpool.Config)) (context.Context, *bundle) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	b := &bundle{db: db, pool: db.Pool(t, conf...), observer: newObserver(t, db)}
	b.exec(t, effectsTable)
	b.d = newDeduper(t, b.pool, opts)
	return ctx, b
}

// effectsTable is what effects leave a row in. The number of a run comes from a sequence, which no
// rollback sets back. fail raises an error.
const effectsTable = `
CREATE TABLE effects (ref text NOT NULL, run bigint);
CREATE SEQUENCE runs;
CREATE FUNCTION fail(code text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
  $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = code; END $$`

// effectSQL is an effect that is one statement. Its answer has the number of its run.
const effectSQL = `INSERT INTO effects (ref, run) VALUES ($1, nextval('runs')) RETURNING run AS id, ref AS title`

func leave(ref string) dedup.Statement { return dedup.SQL(effectSQL, ref) }

// runs returns how often effectSQL ran.
func (b *bundle) runs(t *testing.T) int {
	t.Helper()
	return scalar[int](t, b, `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM runs`)
}

func newDeduper(t *testing.T, pool *pgxpool.Pool, opts *dedup.Options) *dedup.Deduper {
	t.Helper()
	d, err := dedup.New(pool, opts)
	require.NoError(t, err)
	return d
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// role makes one that may do nothing, until the test ends. Roles belong to the server.
func (b *bundle) role(t *testing.T) string {
	t.Helper()
	role := pgx.Identifier{"nobody_" + b.db.Name[:24]}.Sanitize()
	b.exec(t, `CREATE ROLE `+role)
	t.Cleanup(func() {
		_, err := b.observer.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+`; DROP ROLE `+role, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	})
	return role
}

// newObserver makes a pool that connects when it is used. It prepares nothing: tests change tables.
func newObserver(t *testing.T, db *pgtest.DB) *pgxpool.Pool {
	t.Helper()
	return db.Pool(t, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	})
}

// scalar reads one value over the observer's connection.
func scalar[T any](t *testing.T, b *bundle, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, b.observer.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// effects counts the effects of ref that are committed.
func (b *bundle) effects(t *testing.T, ref string) int {
	t.Helper()
	return scalar[int](t, b, `SELECT count(*) FROM effects WHERE ref = $1`, ref)
}

func (b *bundle) records(t *testing.T) int {
	t.Helper()
	return scalar[int](t, b, `SELECT count(*) FROM tool_dedup`)
}

// call is a call whose key is the test's own.
func call(key string) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "create_ticket", Key: key, Args: map[string]any{"title": "printer on fire"}}
}

type ticket struct {
	ID    int    `json:"id"`
	Title string `json:"title"`
}

// effect leaves one row for key and returns a ticket that names it.
func effect(key string) dedup.Effect[ticket] {
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, key)
		return ticket{ID: 7, Title: key}, err
	}
}

// tool is an effect that counts its runs. Its answer is the number of the run,
// so that equal answers are one run's.
type tool struct {
	ref  string
	runs atomic.Int32
	// then goes on in the effect after its row is written.
	then func(ctx context.Context, tx pgx.Tx, run int) error
}

func (e *tool) run(ctx context.Context, tx pgx.Tx) (ticket, error) {
	run := int(e.runs.Add(1))
	if _, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, e.ref); err != nil {
		return ticket{}, err
	}
	if e.then != nil {
		if err := e.then(ctx, tx, run); err != nil {
			return ticket{}, err
		}
	}
	return ticket{ID: run, Title: e.ref}, nil
}

func (e *tool) requireRuns(t *testing.T, want int) {
	t.Helper()
	require.EqualValues(t, want, e.runs.Load(), "runs of the effect")
}

// answered is the answer of a call on another goroutine.
type answered struct {
	dedup.Result[ticket]
	err      error
	panicked any
}

// start makes a call on another goroutine.
func start(ctx context.Context, d *dedup.Deduper, c dedup.Call, effect dedup.Effect[ticket]) <-chan answered {
	return startBy(dedup.Do[ticket], ctx, d, c, effect)
}

type doFunc func(context.Context, *dedup.Deduper, dedup.Call, dedup.Effect[ticket]) (dedup.Result[ticket], error)

func startBy(do doFunc, ctx context.Context, d *dedup.Deduper, c dedup.Call, effect dedup.Effect[ticket]) <-chan answered {
	out := make(chan answered, 1)
	go func() {
		var a answered
		defer func() {
			a.panicked = recover()
			out <- a
		}()
		a.Result, a.err = do(ctx, d, c, effect)
	}()
	return out
}

// receive takes from a channel on which something is bound to come.
func receive[T any](t *testing.T, ctx context.Context, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
		require.FailNow(t, "nothing came", context.Cause(ctx))
		panic("unreachable")
	}
}

func (a answered) require(t *testing.T) dedup.Result[ticket] {
	t.Helper()
	require.Nil(t, a.panicked)
	require.NoError(t, a.err)
	return a.Result
}

// requireTwins requires that all answers are equal and that one call ran.
func requireTwins(t *testing.T, answers []dedup.Result[ticket]) {
	t.Helper()
	ran := 0
	for _, a := range answers {
		require.Equal(t, answers[0].Value, a.Value)
		require.True(t, answers[0].CreatedAt.Equal(a.CreatedAt), "%s, %s", answers[0].CreatedAt, a.CreatedAt)
		require.True(t, answers[0].ExpiresAt.Equal(a.ExpiresAt))
		if !a.Replayed {
			ran++
		}
	}
	require.Equal(t, 1, ran, "calls that were no replay")
}

// gate holds an effect until it is opened.
type gate struct {
	entered, open     chan struct{}
	enterOnce, opOnce sync.Once
}

func newGate() *gate { return &gate{entered: make(chan struct{}), open: make(chan struct{})} }

// pass signals its arrival and waits for the release.
func (g *gate) pass(ctx context.Context) error {
	g.enterOnce.Do(func() { close(g.entered) })
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) release() { g.opOnce.Do(func() { close(g.open) }) }

// inFlight starts a call and waits until its effect has begun. It goes on when land is called,
// which returns its answer.
func (f *fixture) inFlight(t *testing.T, ctx context.Context, d *dedup.Deduper, c dedup.Call) (e *tool, land func() dedup.Result[ticket]) {
	t.Helper()
	held := newGate()
	e = &tool{ref: c.Key, then: held.then}
	pending := f.start(ctx, d, c, e.run)
	receive(t, ctx, held.entered)
	return e, func() dedup.Result[ticket] {
		t.Helper()
		held.release()
		return receive(t, ctx, pending).require(t)
	}
}

// then is pass for a tool.
func (g *gate) then(ctx context.Context, _ pgx.Tx, _ int) error { return g.pass(ctx) }

// rival commits the effect and the record of a twin of c on another connection, without taking a
// lock. It waits only briefly for a claim.
func (b *bundle) rival(ctx context.Context, c dedup.Call, ref string, value ticket, more ...string) error {
	conn, err := pgx.Connect(ctx, b.db.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	fingerprint, err := dedup.FingerprintOf(c.Args)
	if err != nil {
		return err
	}
	result, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Citus passes the limit on to the worker that has the claim.
		for _, sql := range append(more, `SET LOCAL citus.propagate_set_commands = 'local'`, `SET LOCAL lock_timeout = '100ms'`) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, ref); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO tool_dedup
			(scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
			VALUES ($1, $2, $3, $4, 'done', $5, now(), now() + interval '1 hour', now() + interval '2 hours')`,
			c.Scope, c.Tool, c.Key, fingerprint[:], string(result))
		return err
	})
}

// age moves the times of a key's record into the past, by a duration in Postgres' words.
func (b *bundle) age(t *testing.T, key, by string) {
	t.Helper()
	var created, expires, forget time.Time
	// Citus calculates no time from a column in an UPDATE.
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT created_at - $2::text::interval, expires_at - $2::text::interval, forget_at - $2::text::interval
		FROM tool_dedup WHERE key = $1`, key, by).Scan(&created, &expires, &forget))
	b.exec(t, `UPDATE tool_dedup SET created_at = $2, expires_at = $3, forget_at = $4 WHERE key = $1`, key, created, expires, forget)
}

// eventually waits until a query answers true.
func (b *bundle) eventually(t *testing.T, sql string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var yes bool
		err := b.observer.QueryRow(t.Context(), sql, args...).Scan(&yes)
		return err == nil && yes
	}, limit, 2*time.Millisecond, sql)
}

// waitingInside is true when so many backends of the test's database wait for a
// lock.
const waitingInside = `SELECT count(*) >= $1::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

func requireState(t *testing.T, err error, code string) {
	t.Helper()
	var server *pgconn.PgError
	require.ErrorAs(t, err, &server)
	require.Equal(t, code, server.Code, server.Message)
}

func raise(code string) string {
	return fmt.Sprintf(`DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '%s'; END $$`, code)
}

var errPaper = errors.New("out of paper")

// recorder is a tracer that keeps every event.
type recorder struct {
	mu      sync.Mutex
	events  []any
	changed chan struct{}
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{})} }

func (r *recorder) add(e any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	close(r.changed)
	r.changed = make(chan struct{})
}

// until waits until the events are as wanted.
func (r *recorder) until(ctx context.Context, wanted func(events []any) bool) error {
	for {
		r.mu.Lock()
		events, changed := slices.Clone(r.events), r.changed
		r.mu.Unlock()
		if wanted(events) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for events: %w", context.Cause(ctx))
		}
	}
}

// events returns those of one type.
func events[E any](r *recorder) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ofType[E](r.events)
}

func ofType[E any](all []any) []E {
	var some []E
	for _, e := range all {
		if one, ok := e.(E); ok {
			some = append(some, one)
		}
	}
	return some
}

// untilWaiting waits until so many calls wait for a twin in their own process,
// and so many, or more, for one in another.
func (r *recorder) untilWaiting(ctx context.Context, inProcess, across int) error {
	return r.until(ctx, func(all []any) bool {
		in, out := 0, 0
		for _, e := range ofType[dedup.WaitStartData](all) {
			if e.InProcess {
				in++
			} else {
				out++
			}
		}
		return in == inProcess && out >= across
	})
}

// ended returns the end data of the calls with these outcomes.
func (r *recorder) ended(outcomes ...dedup.Outcome) (some []dedup.CallEndData) {
	for _, e := range events[dedup.CallEndData](r) {
		if slices.Contains(outcomes, e.Outcome) {
			some = append(some, e)
		}
	}
	return some
}

func (r *recorder) TraceCallStart(ctx context.Context, e dedup.CallData) context.Context {
	r.add(e)
	return ctx
}
func (r *recorder) TraceCallEnd(_ context.Context, e dedup.CallEndData) { r.add(e) }
func (r *recorder) TraceEvent(_ context.Context, e dedup.Event)         { r.add(e) }
