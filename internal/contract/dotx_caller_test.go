package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
)

// bothOrders runs a test with each order, at the default isolation.
func bothOrders(t *testing.T, run func(t *testing.T, p profile)) {
	t.Helper()
	for _, order := range []orderKind{lockFirst, claimFirst} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			run(t, profile{order: order, isolation: pgx.ReadCommitted})
		})
	}
}

// explosive is a refusal that panics when it is to be recorded.
type explosive struct{ error }

func (explosive) Code() string { panic("code") }

// poolOfOne leaves no connection besides the caller's.
func poolOfOne(config *pgxpool.Config) { config.MaxConns = 1 }

// TestDoTxSavepoint: every end of a DoTx rolls back only its own statements, and leaves no
// savepoint behind.
func TestDoTxSavepoint(t *testing.T) {
	t.Parallel()

	t.Run("PanicInRefusal", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			outer := &tool{ref: "outer", then: func(ctx context.Context, tx pgx.Tx, run int) error {
				require.PanicsWithValue(t, "code", func() {
					_, _ = dedup.DoTx(ctx, f.d, tx, call("inner"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
						_, _ = effect("inner")(ctx, tx)
						return ticket{}, dedup.Final(explosive{errPaper})
					})
				})
				if run == 1 {
					return errPaper
				}
				return nil
			}}
			tx := f.begin(t, ctx)
			_, err := dedup.DoTx(ctx, f.d, tx, call("outer"), outer.run)
			require.ErrorIs(t, err, errPaper)
			_, err = dedup.DoTx(ctx, f.d, tx, call("outer"), outer.run)
			require.NoError(t, err)
			require.NoError(t, tx.Commit(ctx))
			require.Equal(t, 1, f.effects(t, "outer"), "the first run's is rolled back")
			require.Zero(t, f.effects(t, "inner"))
			require.Equal(t, 1, f.records(t))
		})
	})

	// Rows that are left open leave no way to roll back, so the whole
	// transaction must not be committed.
	t.Run("RowsLeftOpen", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			var rows pgx.Rows
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, run int) (err error) {
				if run == 1 {
					rows, err = tx.Query(ctx, `SELECT generate_series(1, 3)`)
				}
				return err
			}}
			tx := f.begin(t, ctx)
			_, err := dedup.DoTx(ctx, f.d, tx, call("k"), e.run)
			require.ErrorIs(t, err, guard.ErrTxBusy)
			rows.Close()
			_ = tx.Commit(ctx) // whatever it answers
			require.Zero(t, f.effects(t, "k"), "without a record")

			_, err = dedup.Do(ctx, f.d, call("k"), e.run)
			require.NoError(t, err)
			require.Equal(t, 1, f.effects(t, "k"))
		})
	})
}

// TestDoTxLost: a caller that loses the connection inside DoTx is told to begin again.
func TestDoTxLost(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	tx := f.begin(t, ctx)
	_, err := dedup.DoTx(ctx, f.d, tx, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		proxy.CutAll()
		return effect("k")(ctx, tx)
	})
	require.ErrorIs(t, err, dedup.ErrRestartTx)
	require.True(t, dedup.IsRetryable(err))
	require.Zero(t, f.effects(t, "k"))
}

func TestPermissionDeniedInTx(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, &dedup.Options{Schema: "hidden"})
		f.exec(t, `CREATE SCHEMA hidden`)
		f.exec(t, `ALTER TABLE tool_dedup SET SCHEMA hidden`)
		role := f.role(t)
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `SET LOCAL ROLE `+role)
		require.NoError(t, err)
		_, err = dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
		// pgx prepares before the savepoint is set, so nothing can be saved. The
		// error says so.
		require.ErrorContains(t, err, "roll it back")
		require.ErrorContains(t, err, "migrations.Check")
	})
}

// The session's own lock_timeout holds where it is shorter than MaxWait.
func TestDoTxKeepsTheSessionsLockTimeout(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, &dedup.Options{MaxWait: time.Hour})
	holder, waiter := f.begin(t, ctx), f.begin(t, ctx)
	_, err := dedup.DoTx(ctx, f.d, holder, call("k"), effect("k"))
	require.NoError(t, err)
	_, err = waiter.Exec(ctx, `SET LOCAL lock_timeout = '100ms'`)
	require.NoError(t, err)
	_, err = dedup.DoTx(ctx, f.d, waiter, call("k"), effect("k"))
	require.ErrorIs(t, err, dedup.ErrInFlight)
	var own string
	require.NoError(t, waiter.QueryRow(ctx, `SHOW lock_timeout`).Scan(&own))
	require.Equal(t, "100ms", own)
}

// TestDoTxJudgesAgeByTheClock, and not by the start of the caller's transaction.
func TestDoTxJudgesAgeByTheClock(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		c := call("expired")
		c.Retention = dedup.Retention{Result: 10 * time.Millisecond}
		_, err := dedup.Do(ctx, f.d, c, effect("expired"))
		require.NoError(t, err)
		forgotten := call("forgotten")
		forgotten.Retention = dedup.Retention{Result: 10 * time.Millisecond, Tombstone: -1}
		tx := f.begin(t, ctx)
		_, err = tx.Exec(ctx, `SELECT 1`)
		require.NoError(t, err)
		_, err = dedup.Do(ctx, f.d, forgotten, effect("forgotten"))
		require.NoError(t, err)
		f.eventually(t, `SELECT bool_and(expires_at <= now()) FROM tool_dedup`)

		_, err = dedup.DoTx(ctx, f.d, tx, c, effect("expired"))
		require.ErrorIs(t, err, dedup.ErrExpired)
		got, err := dedup.DoTx(ctx, f.d, tx, forgotten, effect("forgotten"))
		require.NoError(t, err)
		require.False(t, got.Replayed)
		require.NoError(t, tx.Commit(ctx))
		require.Equal(t, 2, f.effects(t, "forgotten"))
	})
}

// TestDoTxLooksAtTheTransactionsDatabase: the table that was looked at is the pool's.
func TestDoTxLooksAtTheTransactionsDatabase(t *testing.T) {
	t.Parallel()

	ctx, b := setup(t, nil)
	_, err := dedup.Do(ctx, b.d, call("k"), effect("k"))
	require.NoError(t, err)
	_, other := setup(t, nil)
	other.exec(t, `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey`)
	in := func() error {
		return pgx.BeginFunc(ctx, other.pool, func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, b.d, tx, call("k"), effect("k"))
			return err
		})
	}
	require.ErrorIs(t, in(), dedup.ErrSchema)
	require.Zero(t, other.effects(t, "k"))
	other.exec(t, `ALTER TABLE tool_dedup ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key)`)
	require.NoError(t, in())
	require.NoError(t, in())
	require.Equal(t, 1, other.effects(t, "k"))
}
