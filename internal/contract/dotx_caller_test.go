package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestBrokenInTxClaimFirst(t *testing.T) {
	t.Parallel()
	ctx, f := variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}.setup(t, &dedup.Options{CommitTimeout: time.Second}, poolOfOne)
	f.warm(t)
	_, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Conn().Exec(ctx, "commit")
		return ticket{}, err
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.NotContains(t, err.Error(), "could not be recorded")
}

func TestPermissionDeniedInTx(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, &dedup.Options{Schema: "hidden"})
		role := pgx.Identifier{"nobody_" + f.db.Name[:24]}.Sanitize()
		f.exec(t, `CREATE SCHEMA hidden`)
		f.exec(t, `ALTER TABLE tool_dedup SET SCHEMA hidden`)
		f.exec(t, `CREATE ROLE `+role)
		t.Cleanup(func() { _, _ = f.pool.Exec(context.WithoutCancel(ctx), `DROP ROLE `+role) })
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `SET LOCAL ROLE `+role)
		require.NoError(t, err)
		_, err = dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
		// pgx prepares before the savepoint is set, so nothing can be saved; but
		// the caller is told.
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
