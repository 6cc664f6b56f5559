package external_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestAccept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	var jobs []string
	tools, err := external.New(f.d, &external.Options{Lease: lease, Enqueue: func(_ context.Context, _ pgx.Tx, op external.Operation) error {
		jobs = append(jobs, op.Key)
		return nil
	}})
	require.NoError(t, err)
	f.tools = tools
	h := add(f, ledger(f, external.Tool[in, out]{Perform: p.perform}))
	accept := func(key string, order int) (external.Operation, error) {
		var op external.Operation
		err := pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) (err error) {
			op, err = h.Accept(f.ctx, tx, call(key), in{order})
			return err
		})
		return op, err
	}
	op, err := accept("k", 1)
	require.NoError(t, err)
	require.Equal(t, external.Pending, op.State)
	require.Zero(t, p.effects())
	_, err = accept("k", 1)
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, jobs)
	_, err = accept("k", 2)
	require.ErrorIs(t, err, dedup.ErrKeyReused)

	op, err = tools.Advance(f.ctx, "acme", "charge", "k")
	require.NoError(t, err)
	require.Equal(t, external.Done, op.State)
	op, err = accept("k", 1)
	require.NoError(t, err)
	require.Equal(t, external.Done, op.State)
	require.Equal(t, []string{"begin 1", "finish ch_1"}, f.ledger())
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.True(t, result.Replayed)
}

// TestAcceptOfAClaim meets an operation that somebody else has not committed yet: the
// caller's transaction stays usable, with its own lock_timeout.
func TestAcceptOfAClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	first, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	_, err = h.Accept(f.ctx, first, call("k"), in{1})
	require.NoError(t, err)

	second, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	_, err = second.Exec(f.ctx, `SET LOCAL lock_timeout = '7s'`)
	require.NoError(t, err)
	_, err = h.Accept(f.ctx, second, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	var timeout string
	require.NoError(t, second.QueryRow(f.ctx, `SELECT current_setting('lock_timeout')`).Scan(&timeout))
	require.Equal(t, "7s", timeout)
	_, err = h.Accept(f.ctx, second, call("other"), in{1})
	require.NoError(t, err)
	require.NoError(t, second.QueryRow(f.ctx, `SELECT current_setting('lock_timeout')`).Scan(&timeout))
	require.Equal(t, "7s", timeout)
	require.NoError(t, second.Commit(f.ctx))

	_, err = h.Do(f.ctx, impatient("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.NoError(t, first.Rollback(f.ctx))
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
}

// TestAcceptAtAnOldSnapshot meets an operation that was accepted after the transaction had
// begun to read.
func TestAcceptAtAnOldSnapshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	old, err := f.pool.BeginTx(f.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = old.Rollback(f.ctx) }()
	_, err = old.Exec(f.ctx, `SELECT 1`)
	require.NoError(t, err)
	accept(f, h, "k", 1)
	_, err = h.Accept(f.ctx, old, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRestartTx)
}

// TestAcceptInAnEffect is an outbox of a write tool: its intent is committed with its own
// writes and its record, or not at all.
func TestAcceptInAnEffect(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	fails := errors.New("no")
	book := func(key string, fail error) error {
		_, err := dedup.Do(f.ctx, f.d, dedup.Call{Scope: "acme", Tool: "book", Key: key}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			if _, err := h.Do(ctx, call(key), in{1}); !errors.Is(err, dedup.ErrInvalid) {
				t.Errorf("Do inside an effect: %v", err)
			}
			_, err := h.Accept(ctx, tx, call(key), in{1})
			require.NoError(t, err)
			return 1, fail
		})
		return err
	}
	require.NoError(t, book("committed", nil))
	require.NoError(t, book("committed", nil))
	require.ErrorIs(t, book("rolled back", fails), fails)
	require.Equal(t, external.Pending, f.lookup("committed").State)
	require.Equal(t, external.None, f.lookup("rolled back").State)
}

// TestAcceptFails leaves nothing of an intent whose local writes or job fail, and the
// caller's transaction usable.
func TestAcceptFails(t *testing.T) {
	t.Parallel()
	fails := errors.New("the queue is full")
	var enqueue error
	f := processWith(t, pgtest.New(t).Pool(t), &external.Options{Enqueue: func(context.Context, pgx.Tx, external.Operation) error { return enqueue }})
	tool := ledger(f, external.Tool[in, out]{Perform: answering("ch_1")})
	begin := tool.Begin
	tool.Begin = func(ctx context.Context, tx pgx.Tx, i in) error {
		if i.Order < 0 {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return err
		}
		return begin(ctx, tx, i)
	}
	h := add(f, tool)
	tx, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	_, err = h.Accept(f.ctx, tx, call("begin"), in{-1})
	require.ErrorContains(t, err, "division by zero")
	enqueue = fails
	_, err = h.Accept(f.ctx, tx, call("enqueue"), in{1})
	require.ErrorIs(t, err, fails)
	enqueue = nil
	for range 2 {
		_, err = h.Accept(f.ctx, tx, call("fine"), in{2})
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(f.ctx))
	require.Equal(t, []string{"begin 2"}, f.ledger())
	require.Equal(t, external.None, f.lookup("begin").State)
	require.Equal(t, external.None, f.lookup("enqueue").State)
	require.Equal(t, external.Pending, f.lookup("fine").State)

	_, err = h.Accept(f.ctx, tx, call("closed"), in{2})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	_, err = h.Accept(f.ctx, nil, call("nil"), in{2})
	require.ErrorIs(t, err, dedup.ErrInvalid)
}

// TestAcceptPanics leaves nothing of an intent in a transaction whose caller survives.
func TestAcceptPanics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tool := ledger(f, external.Tool[in, out]{Perform: answering("ch_1")})
	begin := tool.Begin
	tool.Begin = func(ctx context.Context, tx pgx.Tx, i in) error {
		require.NoError(t, begin(ctx, tx, i))
		panic("a bug")
	}
	h := add(f, tool)
	tx, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	require.Panics(t, func() { _, _ = h.Accept(f.ctx, tx, call("k"), in{1}) })
	require.NoError(t, tx.Commit(f.ctx))
	require.Empty(t, f.ledger())
	require.Equal(t, external.None, f.lookup("k").State)
}

// TestAcceptAfterTheCallerHasLeft fails in Begin when the context has ended: nothing is left.
func TestAcceptAfterTheCallerHasLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tool := ledger(f, external.Tool[in, out]{Perform: answering("ch_1")})
	begin := tool.Begin
	ctx, cancel := context.WithCancel(f.ctx)
	tool.Begin = func(ctx context.Context, tx pgx.Tx, i in) error {
		require.NoError(t, begin(ctx, tx, i))
		cancel()
		return ctx.Err()
	}
	h := add(f, tool)
	tx, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	_, err = h.Accept(ctx, tx, call("k"), in{1})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, tx.Commit(f.ctx))
	require.Empty(t, f.ledger())
	require.Equal(t, external.None, f.lookup("k").State)
}

// TestAcceptLeavesNoSavepoint ends in every way: a savepoint that stays would take later
// writes of the caller back with it.
func TestAcceptLeavesNoSavepoint(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fails := false
	tool := ledger(f, external.Tool[in, out]{Perform: answering("ch_1")})
	begin := tool.Begin
	tool.Begin = func(ctx context.Context, tx pgx.Tx, i in) error {
		if fails {
			return errLost
		}
		return begin(ctx, tx, i)
	}
	h := add(f, tool)
	held, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	defer func() { _ = held.Rollback(f.ctx) }()
	_, err = h.Accept(f.ctx, held, call("held"), in{1})
	require.NoError(t, err)
	_, err = h.Do(f.ctx, call("done"), in{1})
	require.NoError(t, err)
	for name, accept := range map[string]func(tx pgx.Tx) error{
		"in flight": func(tx pgx.Tx) error {
			_, err := h.Accept(f.ctx, tx, call("held"), in{1})
			require.ErrorIs(t, err, dedup.ErrInFlight)
			return err
		},
		"done": func(tx pgx.Tx) error {
			_, err := h.Accept(f.ctx, tx, call("done"), in{1})
			require.NoError(t, err)
			return err
		},
		"reused": func(tx pgx.Tx) error {
			_, err := h.Accept(f.ctx, tx, call("done"), in{2})
			require.ErrorIs(t, err, dedup.ErrKeyReused)
			return err
		},
		"fails": func(tx pgx.Tx) error {
			fails = true
			defer func() { fails = false }()
			_, err := h.Accept(f.ctx, tx, call("fails"), in{2})
			require.ErrorIs(t, err, errLost)
			return err
		},
		"accepted": func(tx pgx.Tx) error {
			_, err := h.Accept(f.ctx, tx, call("accepted"), in{1})
			require.NoError(t, err)
			return err
		},
	} {
		tx, err := f.pool.Begin(f.ctx)
		require.NoError(t, err)
		_ = accept(tx)
		_, err = tx.Exec(f.ctx, `RELEASE SAVEPOINT tool_effect`)
		require.ErrorContains(t, err, "3B001", name)
		require.NoError(t, tx.Rollback(f.ctx))
	}
}

// TestAcceptMeetsAnError of the server: the caller's transaction stays usable.
func TestAcceptMeetsAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	on(f, "INSERT", "", "23514")
	f.exec(`CREATE TABLE mine (a int)`)
	tx, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(f.ctx, `INSERT INTO mine VALUES (1)`)
	require.NoError(t, err)
	_, err = h.Accept(f.ctx, tx, call("k"), in{1})
	require.ErrorContains(t, err, "a fault")
	require.NoError(t, tx.Commit(f.ctx))
	var n int
	require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT count(*) FROM mine`).Scan(&n))
	require.Equal(t, 1, n)
}
