package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// A read-only primary is not a standby: another attempt would find the same server.
func TestReadOnlyTransaction(t *testing.T) {
	t.Parallel()
	insert := dedup.SQL(`INSERT INTO effects (ref) VALUES ('ran') RETURNING 1 AS id, ref AS title`)
	requireAtOnce := func(t *testing.T, err error, attempts int) {
		t.Helper()
		require.ErrorIs(t, err, dedup.ErrInvalid)
		require.ErrorContains(t, err, "read-only")
		requireState(t, err, "25006")
		require.False(t, dedup.IsRetryable(err))
		require.LessOrEqual(t, attempts, 2)
	}

	t.Run("Session", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			d := newDeduper(t, f.db.Pool(t, func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
			}), &f.opts)
			writes, reads := &tool{ref: "ran"}, 0
			result, err := dedup.Do(ctx, d, call("writes"), writes.run)
			requireAtOnce(t, err, result.Attempts)
			result, err = dedup.Do(ctx, d, call("reads"), func(context.Context, pgx.Tx) (ticket, error) { reads++; return ticket{}, nil })
			requireAtOnce(t, err, result.Attempts)
			require.LessOrEqual(t, reads, 1)
			result, err = dedup.DoStatement[ticket](ctx, d, call("statement"), insert)
			requireAtOnce(t, err, result.Attempts)
			require.Empty(t, events[dedup.RetriedData](f.events))

			// What is recorded can be read.
			_, err = dedup.Do(ctx, f.d, call("k"), effect("k"))
			require.NoError(t, err)
			looking := call("k")
			looking.LookFirst = true
			result, err = dedup.Do(ctx, d, looking, writes.run)
			require.NoError(t, err)
			require.True(t, result.Replayed)
		})
	})

	t.Run("Effect", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			e := &tool{ref: "ran", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, err := tx.Exec(ctx, `SET TRANSACTION READ ONLY`)
				return err
			}}
			result, err := dedup.Do(ctx, f.d, call("k"), e.run)
			requireAtOnce(t, err, result.Attempts)
			for _, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.Serializable} {
				tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: isolation})
				require.NoError(t, err)
				result, err = dedup.DoTx(ctx, f.d, tx, call("k"), e.run)
				requireAtOnce(t, err, result.Attempts)
				require.NoError(t, tx.Rollback(ctx))
			}
			tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			result, err = dedup.DoTx(ctx, f.d, tx, call("reads"), func(context.Context, pgx.Tx) (ticket, error) { return ticket{}, nil })
			requireAtOnce(t, err, result.Attempts)
			e.requireRuns(t, 3)
			require.Empty(t, events[dedup.RetriedData](f.events))
			require.Zero(t, f.effects(t, "ran"))
		})
	})
}
