package contract_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestDoTxJudgesAgeByTheClock, and not by the start of the caller's transaction.
func TestDoTxJudgesAgeByTheClock(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, nil)
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
	other := &bundle{db: pgtest.New(t)}
	other.pool = other.db.Pool(t)
	other.exec(t, `CREATE TABLE effects (ref text NOT NULL)`)
	other.exec(t, `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey`)
	in := func() error {
		return pgx.BeginFunc(ctx, other.pool, func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, b.d, tx, call("k"), effect("k"))
			return err
		})
	}
	require.ErrorIs(t, in(), dedup.ErrArbiter)
	require.Zero(t, other.effects(t, "k"))
	other.exec(t, `ALTER TABLE tool_dedup ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key)`)
	require.NoError(t, in())
	require.NoError(t, in())
	require.Equal(t, 1, other.effects(t, "k"))
}
