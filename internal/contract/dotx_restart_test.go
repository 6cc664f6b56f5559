package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// stricter runs at the levels whose snapshots are older than their statements.
func stricter(t *testing.T, orders []dedup.Order, run func(t *testing.T, v variant)) {
	t.Helper()
	for _, order := range orders {
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			v := variant{order: order, isolation: level}
			t.Run(v.String(), func(t *testing.T) {
				t.Parallel()
				run(t, v)
			})
		}
	}
}

// TestDoTxOwnViolation: an effect that violates a constraint of its own table at a
// stricter level is told so, and not to run the transaction again for ever.
func TestDoTxOwnViolation(t *testing.T) {
	t.Parallel()

	stricter(t, []dedup.Order{dedup.LockFirst, dedup.ClaimFirst}, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, nil)
		f.exec(t, `CREATE TABLE seats (n int UNIQUE, during int4range, EXCLUDE USING gist (during WITH &&)); INSERT INTO seats VALUES (1, '[1,5)')`)
		for code, sql := range map[string]string{
			"23505": `INSERT INTO seats VALUES (1)`,
			"23P01": `INSERT INTO seats VALUES (2, '[2,3)')`,
		} {
			tx := f.begin(t, ctx)
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, err := tx.Exec(ctx, sql)
				return err
			}}
			_, err := dedup.DoTx(ctx, f.d, tx, call("k"), e.run)
			requireState(t, err, code)
			require.NotErrorIs(t, err, dedup.ErrRestartTx)
			require.False(t, dedup.IsRetryable(err))
			e.requireRuns(t, 1)
			var timeout string
			require.NoError(t, tx.QueryRow(ctx, `SHOW lock_timeout`).Scan(&timeout))
			require.Equal(t, "0", timeout)
			requireUsable(t, ctx, tx)
			require.NoError(t, tx.Commit(ctx))
			require.Zero(t, f.records(t))
		}
	})
}

// TestDoTxViolationOfATwin: where the violation is of what a twin has written, whose
// record the snapshot hides, the transaction is to be run again. With ClaimFirst the
// claim has met that record before the effect.
func TestDoTxViolationOfATwin(t *testing.T) {
	t.Parallel()

	for code, table := range map[string]string{
		"23505": `CREATE UNIQUE INDEX ON effects (ref)`,
		"23P01": `ALTER TABLE effects ADD EXCLUDE (ref WITH =)`,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			stricter(t, []dedup.Order{dedup.LockFirst}, func(t *testing.T, v variant) {
				ctx, f := v.setup(t, nil)
				f.exec(t, table)
				tx := f.begin(t, ctx)
				requireUsable(t, ctx, tx) // takes the snapshot
				_, err := dedup.Do(ctx, f.peer(t), call("k"), effect("k"))
				require.NoError(t, err)

				_, err = dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
				requireState(t, err, code)
				require.ErrorIs(t, err, dedup.ErrRestartTx)
				require.NoError(t, tx.Rollback(ctx))
				replay, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call("k"), effect("k"))
				require.NoError(t, err)
				require.True(t, replay.Replayed)
				require.Equal(t, 1, f.effects(t, "k"))
			})
		})
	}
}

// TestDoTxLostBeforeItLooks: where the connection is lost after a conflict and before it
// can be looked up, nobody knows whose it was.
func TestDoTxLostBeforeItLooks(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	f.warm(t)
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("rollback to savepoint")})
	_, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call("k"), (&tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
		return f.rivalDirect(t, call("k"))
	}}).run)
	require.ErrorIs(t, err, dedup.ErrRestartTx)
	require.True(t, dedup.IsRetryable(err))
	requireState(t, err, "23505")

	replay, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call("k"), effect("k"))
	require.NoError(t, err)
	require.True(t, replay.Replayed)
	require.Equal(t, 1, f.effects(t, "k"))
}
