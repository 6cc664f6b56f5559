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
	require.Equal(t, []string{"finish ch_1"}, f.ledger())
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

// enqueuing is a process whose jobs are put beside an intent by a function.
func enqueuing(t *testing.T, enqueue func(ctx context.Context, tx pgx.Tx, op external.Operation) error) (*fixture, *external.Handle[in, out]) {
	t.Helper()
	f := processWith(t, pgtest.New(t).Pool(t), &external.Options{Lease: lease, Enqueue: enqueue})
	f.exec(`CREATE TABLE job (key text)`)
	return f, add(f, external.Tool[in, out]{Perform: answering("ch_1")})
}

func enqueue(ctx context.Context, tx pgx.Tx, op external.Operation) error {
	_, err := tx.Exec(ctx, `INSERT INTO job VALUES ($1)`, op.Key)
	return err
}

func (f *fixture) jobs() (keys string) {
	f.t.Helper()
	require.NoError(f.t, f.pool.QueryRow(f.ctx, `SELECT coalesce(string_agg(key, ' ' ORDER BY key), '') FROM job`).Scan(&keys))
	return keys
}

// TestAcceptFails leaves nothing of an intent whose job fails, in whatever way, and the caller's
// transaction usable.
func TestAcceptFails(t *testing.T) {
	t.Parallel()
	fails := errors.New("the queue is full")
	ctx, cancel := context.WithCancel(t.Context())
	f, h := enqueuing(t, func(ctx context.Context, tx pgx.Tx, op external.Operation) error {
		if err := enqueue(ctx, tx, op); err != nil {
			return err
		}
		switch op.Key {
		case "full":
			return fails
		case "raises":
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return err
		case "locked":
			_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1ms'; UPDATE job SET key = key WHERE key = 'another'`)
			return err
		case "panics":
			panic("a bug")
		case "left":
			cancel()
			return ctx.Err()
		}
		return nil
	})
	f.exec(`INSERT INTO job VALUES ('another')`)
	locker, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	defer func() { _ = locker.Rollback(f.ctx) }()
	_, err = locker.Exec(f.ctx, `UPDATE job SET key = key`)
	require.NoError(t, err)
	tx, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(f.ctx) }()
	_, err = h.Accept(f.ctx, tx, call("raises"), in{1})
	require.ErrorContains(t, err, "division by zero")
	_, err = h.Accept(f.ctx, tx, call("full"), in{1})
	require.ErrorIs(t, err, fails)
	_, err = h.Accept(f.ctx, tx, call("locked"), in{1})
	require.ErrorContains(t, err, "55P03")
	require.True(t, dedup.IsTransient(err), "so that Deduper.BeginFunc runs the transaction again")
	require.NotErrorIs(t, err, dedup.ErrInFlight, "nobody else has the key")
	require.Panics(t, func() { _, _ = h.Accept(f.ctx, tx, call("panics"), in{1}) })
	_, err = h.Accept(ctx, tx, call("left"), in{1})
	require.ErrorIs(t, err, context.Canceled)
	for range 2 {
		_, err = h.Accept(f.ctx, tx, call("fine"), in{2})
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(f.ctx))
	require.Equal(t, "another fine", f.jobs())
	for _, key := range []string{"raises", "full", "locked", "panics", "left"} {
		require.Equal(t, external.None, f.lookup(key).State, key)
	}
	require.Equal(t, external.Pending, f.lookup("fine").State)

	_, err = h.Accept(f.ctx, tx, call("closed"), in{2})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	_, err = h.Accept(f.ctx, nil, call("nil"), in{2})
	require.ErrorIs(t, err, dedup.ErrInvalid)
}

// TestAcceptLeavesNoSavepoint ends in every way: a savepoint that stays would take later
// writes of the caller back with it.
func TestAcceptLeavesNoSavepoint(t *testing.T) {
	t.Parallel()
	f, h := enqueuing(t, func(ctx context.Context, tx pgx.Tx, op external.Operation) error {
		if op.Key == "fails" {
			return errLost
		}
		return enqueue(ctx, tx, op)
	})
	held, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	defer func() { _ = held.Rollback(f.ctx) }()
	_, err = h.Accept(f.ctx, held, call("held"), in{1})
	require.NoError(t, err)
	_, err = h.Do(f.ctx, call("done"), in{1})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		key   string
		order int
		want  error
	}{
		"in flight": {"held", 1, dedup.ErrInFlight},
		"done":      {"done", 1, nil},
		"reused":    {"done", 2, dedup.ErrKeyReused},
		"fails":     {"fails", 2, errLost},
		"accepted":  {"accepted", 1, nil},
	} {
		tx, err := f.pool.Begin(f.ctx)
		require.NoError(t, err)
		_, err = h.Accept(f.ctx, tx, call(tt.key), in{tt.order})
		require.ErrorIs(t, err, tt.want, name)
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
