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
	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			run(t, profile{order: order, isolation: pgx.ReadCommitted})
		})
	}
}

// overtaken makes a DoTx whose context ends inside its effect.
func overtaken(ctx context.Context, d *dedup.Deduper, tx pgx.Tx, key string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := dedup.DoTx(ctx, d, tx, call(key), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		defer cancel()
		return effect(key)(ctx, tx)
	})
	return err
}

// explosive is a refusal that panics when it is to be recorded.
type explosive struct{ error }

func (explosive) Code() string { panic("code") }

// poolOfOne leaves nothing for anybody but the caller.
func poolOfOne(config *pgxpool.Config) { config.MaxConns = 1 }

// TestDoTxSavepoint: whichever way a DoTx ends, it takes back what is its own and
// nothing else, and leaves no savepoint that others could take for theirs.
func TestDoTxSavepoint(t *testing.T) {
	t.Parallel()

	// The outer call rolls back to its own savepoint, not to one that an inner
	// call has left.
	t.Run("CancelledInNestedCall", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			outer := &tool{ref: "outer", then: func(ctx context.Context, tx pgx.Tx, run int) error {
				if run > 1 {
					return nil
				}
				return overtaken(ctx, f.d, tx, "inner")
			}}
			tx := f.begin(t, ctx)
			_, err := dedup.DoTx(ctx, f.d, tx, call("outer"), outer.run)
			require.ErrorIs(t, err, context.Canceled)
			requireUsable(t, ctx, tx)
			require.NoError(t, tx.Commit(ctx))
			require.Zero(t, f.effects(t, "outer"), "without a record")
			require.Zero(t, f.effects(t, "inner"))
			require.Equal(t, 1, f.effects(t, "after"))
			require.Zero(t, f.records(t))

			_, err = dedup.Do(ctx, f.d, call("outer"), outer.run)
			require.NoError(t, err)
			require.Equal(t, 1, f.effects(t, "outer"))
		})
	})

	// Two optional steps end in the middle of an effect; what it writes between
	// them stays.
	t.Run("CancelledStepsLoseNothing", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			_, err := dedup.Do(ctx, f.d, call("outer"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
				require.ErrorIs(t, overtaken(ctx, f.d, tx, "optional 1"), context.Canceled)
				if _, err := effect("must")(ctx, tx); err != nil {
					return ticket{}, err
				}
				ended, cancel := context.WithCancel(ctx)
				cancel()
				_, err := dedup.DoTx(ended, f.d, tx, call("optional 2"), effect("optional 2"))
				require.ErrorIs(t, err, context.Canceled)
				return ticket{ID: 1}, nil
			})
			require.NoError(t, err)
			require.Equal(t, 1, f.effects(t, "must"))
			require.Zero(t, f.effects(t, "optional 1"))
			require.Equal(t, 1, f.records(t))
		})
	})

	t.Run("EndedContext", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			f.warm(t)
			tx := f.begin(t, ctx)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			e := &tool{ref: "k"}
			_, err := dedup.DoTx(ended, f.d, tx, call("k"), e.run)
			require.ErrorIs(t, err, context.Canceled)
			e.requireRuns(t, 0)
			requireUsable(t, ctx, tx)
			require.NoError(t, tx.Commit(ctx))
			require.Equal(t, 1, f.effects(t, "after"))
		})
	})

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

// TestDoTxBroken has an effect commit the caller's transaction, whose connection
// is the only one there is. That must be recorded all the same.
func TestDoTxBroken(t *testing.T) {
	t.Parallel()

	for name, commit := range map[string]func(ctx context.Context, outer, inner pgx.Tx) error{
		"OuterVariable": func(ctx context.Context, outer, _ pgx.Tx) error { return outer.Commit(ctx) },
		"Conn": func(ctx context.Context, _, inner pgx.Tx) error {
			_, err := inner.Conn().Exec(ctx, "commit")
			return err
		},
		"ConnThenPanic": func(ctx context.Context, _, inner pgx.Tx) error {
			_, _ = inner.Conn().Exec(ctx, "commit")
			panic("out of paper")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothOrders(t, func(t *testing.T, p profile) {
				ctx, f := p.setup(t, nil, poolOfOne)
				f.warm(t)
				tx := f.begin(t, ctx)
				e := &tool{ref: "k", then: func(ctx context.Context, inner pgx.Tx, _ int) error { return commit(ctx, tx, inner) }}
				func() {
					defer func() { _ = recover() }()
					_, err := dedup.DoTx(ctx, f.d, tx, call("k"), e.run)
					require.ErrorIs(t, err, dedup.ErrBroken)
					require.NotContains(t, err.Error(), "could not be recorded")
				}()
				_ = tx.Rollback(ctx)

				_, err := dedup.Do(ctx, f.d, call("k"), e.run)
				require.ErrorIs(t, err, dedup.ErrBroken)
				e.requireRuns(t, 1)
				require.Equal(t, 1, f.effects(t, "k"))
				require.Equal(t, 1, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE outcome IN ('broken', 'claimed')`))
			})
		})
	}
}

// TestDoTxLost: whoever loses the connection inside a DoTx is asked to begin
// again, and whoever began a read-only transaction is not.
func TestDoTxLost(t *testing.T) {
	t.Parallel()

	t.Run("Terminated", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		tx := f.begin(t, ctx)
		_, err := dedup.DoTx(ctx, f.d, tx, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			_, err := tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`)
			return ticket{}, err
		})
		require.ErrorIs(t, err, dedup.ErrRestartTx)
		require.True(t, dedup.IsRetryable(err))
	})

	t.Run("Cut", func(t *testing.T) {
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
	})

	t.Run("ReadOnly", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			_, err = dedup.DoTx(ctx, f.d, tx, call("k"), func(context.Context, pgx.Tx) (ticket, error) { return ticket{}, nil })
			requireState(t, err, "25006")
			require.NotErrorIs(t, err, dedup.ErrRestartTx)
		})
	})
}

func TestPermissionDeniedInTx(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, &dedup.Options{Schema: "hidden"})
		role := pgx.Identifier{"nobody_" + f.db.Name[:24]}.Sanitize()
		f.exec(t, `CREATE SCHEMA hidden`)
		f.exec(t, `ALTER TABLE tool_dedup SET SCHEMA hidden`)
		f.exec(t, `CREATE ROLE `+role)
		t.Cleanup(func() { _, _ = f.pool.Exec(context.WithoutCancel(ctx), `DROP ROLE `+role) })
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
