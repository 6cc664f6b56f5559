package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// badRow is one misuse, the error that is documented for it, and what may be
// left of it. Whatever it is, it leaves no transaction, no lock and no
// connection behind, and the next call with the same key is answered.
type badRow struct {
	name string
	// run commits the misuse and returns its error. A panic is returned as a
	// panicked.
	run  func(w *badWorld) error
	want func(t *testing.T, err error)

	opts    dedup.Options
	alone   bool // it changes more of the database than rows
	proxied bool // w.proxy stands between pool and server
	records int  // left in tool_dedup, one at most
	effects int  // left in effects
	next    error
	replays bool // the next call is a replay
}

// badWorld is the database and the Deduper of a row.
type badWorld struct {
	*badGround
	t     *testing.T
	ctx   context.Context
	proxy *faultproxy.Proxy
}

// badGround is a database with its connections. One row after the other uses it.
type badGround struct {
	*bundle
	traced *acquireTracer
}

// panicked is a panic, as an error.
type panicked struct{ value any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func caught(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked{v}
		}
	}()
	return f()
}

// is wants every one of targets in the chain.
func is(targets ...error) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		require.Error(t, err)
		for _, target := range targets {
			require.ErrorIs(t, err, target)
		}
	}
}

func fine(t *testing.T, err error) { t.Helper(); require.NoError(t, err) }

// invalidCall wants an *InvalidError about field, and no retry.
func invalidCall(field string, causes ...error) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var invalid *dedup.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
		require.NotEmpty(t, invalid.Reason)
		require.False(t, dedup.IsRetryable(err))
		is(causes...)(t, err)
	}
}

func badResult(reason string, causes ...error) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var result *dedup.InvalidError
		require.ErrorAs(t, err, &result)
		require.Equal(t, "result", result.What)
		require.Contains(t, result.Reason, reason)
		require.Nil(t, result.Stored)
		require.False(t, dedup.IsRetryable(err))
		is(append(causes, dedup.ErrInvalid)...)(t, err)
	}
}

// state wants a server's error.
func state(code string) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var server *pgconn.PgError
		require.ErrorAs(t, err, &server)
		require.Equal(t, code, server.Code)
	}
}

func panics(value any) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		require.Equal(t, panicked{value}, err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	var rows []badRow
	for _, some := range [][]badRow{
		badCalls(), badResults(), badEffects(), badEndings(), badNesting(), badTransactions(), badContexts(), badSessions(),
	} {
		rows = append(rows, some...)
	}
	require.GreaterOrEqual(t, len(rows), 60)
	seen := map[string]bool{}
	free := make(chan *badGround, len(rows))
	all := t // which outlives its rows
	for _, row := range rows {
		require.False(t, seen[row.name], row.name)
		seen[row.name] = true
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if row.alone || row.proxied {
				row.try(t, newBadWorld(t, row))
				return
			}
			var ground *badGround
			select {
			case ground = <-free:
			default:
				ground = newBadGround(all, pgtest.New(all))
			}
			row.try(t, ground.world(t, row))
			ground.exec(t, `DELETE FROM tool_dedup; DELETE FROM effects`)
			free <- ground // not reused after a failure
		})
	}
}

func (row badRow) try(t *testing.T, w *badWorld) {
	t.Helper()
	err := caught(func() error { return row.run(w) })
	row.want(t, err)
	w.requireClean(row)
}

func newBadGround(t *testing.T, db *pgtest.DB) *badGround {
	t.Helper()
	g := &badGround{bundle: &bundle{db: db, observer: newObserver(t, db)}, traced: &acquireTracer{}}
	g.pool = db.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = g.traced })
	g.exec(t, effectsTable)
	return g
}

func (g *badGround) world(t *testing.T, row badRow) *badWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	g.traced.waiting = nil
	g.d = newDeduper(t, g.pool, &row.opts)
	return &badWorld{badGround: g, t: t, ctx: ctx}
}

// newBadWorld makes a world on its own ground.
func newBadWorld(t *testing.T, row badRow) *badWorld {
	t.Helper()
	db := pgtest.New(t)
	if !row.proxied {
		return newBadGround(t, db).world(t, row)
	}
	proxy, err := faultproxy.New(db.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	via := *db
	via.URL = proxy.URL()
	w := newBadGround(t, &via).world(t, row)
	w.db, w.proxy = db, proxy
	return w
}

// requireClean checks the rows that remain, and that the identity can still be used.
func (w *badWorld) requireClean(row badRow) {
	t := w.t
	t.Helper()
	require.Equal(t, row.records, w.records(t), "records")
	require.Equal(t, row.effects, w.effects(t, "k"), "effects")
	w.requireNoLeak()

	result, err := dedup.Do(w.ctx, w.d, call("k"), effect("k"))
	if row.next != nil {
		require.ErrorIs(t, err, row.next)
		require.Equal(t, row.effects, w.effects(t, "k"), "effects after the next call")
		return
	}
	require.NoError(t, err)
	require.Equal(t, row.replays, result.Replayed)
	if !row.replays {
		row.effects++
	}
	require.Equal(t, row.effects, w.effects(t, "k"), "effects after the next call")
	require.Equal(t, 1, w.records(t), "records after the next call")
}

// requireNoLeak waits until every connection is in the pool again, and until
// the server has neither a transaction nor an advisory lock of this database.
func (w *badWorld) requireNoLeak() {
	t := w.t
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, limit/2)
	defer cancel()
	all := make([]*pgxpool.Conn, w.pool.Config().MaxConns)
	for i := range all {
		var err error
		all[i], err = w.pool.Acquire(ctx)
		require.NoError(t, err, "a connection has not been given back")
		require.Equal(t, byte('I'), all[i].Conn().PgConn().TxStatus())
	}
	for _, conn := range all {
		conn.Release()
	}
	stat := w.pool.Stat()
	require.Equal(t, stat.TotalConns(), stat.IdleConns())

	for {
		var transactions, locks int
		err := w.observer.QueryRow(ctx, `
			SELECT (SELECT count(*) FROM pg_stat_activity
			         WHERE datname = current_database() AND pid <> pg_backend_pid()
			           AND backend_type = 'client backend' AND xact_start IS NOT NULL),
			       (SELECT count(*) FROM pg_locks
			         WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`,
		).Scan(&transactions, &locks)
		require.NoError(t, err, "the server still has %d transactions and %d advisory locks", transactions, locks)
		if transactions+locks == 0 {
			return
		}
	}
}

// acquireTracer signals when a call begins to wait for a connection.
type acquireTracer struct{ waiting func() }

func (a *acquireTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (a *acquireTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (a *acquireTracer) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	if a.waiting != nil {
		a.waiting()
	}
	return ctx
}
func (a *acquireTracer) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {
}

// step is the rest of an effect whose first statement was fine.
type step func(ctx context.Context, tx pgx.Tx) error

func (s step) effect() dedup.Effect[ticket] {
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`); err != nil {
			return ticket{}, err
		}
		return ticket{ID: 7, Title: "k"}, s(ctx, tx)
	}
}

func (w *badWorld) do(s step) error { return w.doCtx(w.ctx, s) }

func (w *badWorld) doCtx(ctx context.Context, s step) error {
	_, err := dedup.Do(ctx, w.d, call("k"), s.effect())
	return err
}

// doTx makes the call in a transaction and commits it even after an error.
func (w *badWorld) doTx(s step) error {
	tx, err := w.pool.Begin(w.ctx)
	require.NoError(w.t, err)
	defer tx.Rollback(context.WithoutCancel(w.ctx))
	err = caught(func() error {
		_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), s.effect())
		return err
	})
	w.requireUsable(tx)
	return err
}

// requireUsable writes a row in tx and commits it.
func (w *badWorld) requireUsable(tx pgx.Tx) {
	w.t.Helper()
	_, err := tx.Exec(w.ctx, `INSERT INTO effects (ref) VALUES ('caller')`)
	require.NoError(w.t, err, "the caller's transaction is not as it was")
	require.NoError(w.t, tx.Commit(w.ctx))
	require.Equal(w.t, 1, w.effects(w.t, "caller"))
}

// inTx runs f in a transaction of the pool and rolls it back.
func (w *badWorld) inTx(f func(tx pgx.Tx) error) error {
	tx, err := w.pool.Begin(w.ctx)
	require.NoError(w.t, err)
	defer tx.Rollback(context.WithoutCancel(w.ctx))
	return f(tx)
}

func (w *badWorld) doWith(c dedup.Call) error {
	_, err := dedup.Do(w.ctx, w.d, c, effect("k"))
	return err
}
