package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestCallerVanishesInAStatement: a process that ends while the server runs a statement for it
// blocks its twins for no longer than IdleTimeout.
func TestCallerVanishesInAStatement(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f, proxy := proxied(t, p, &dedup.Options{IdleTimeout: 3 * time.Second, Retry: dedup.RetryPolicy{MaxAttempts: 1}})
		if !scalar[bool](t, f.bundle, `SELECT COALESCE(current_setting('client_connection_check_interval', true) = '0', false) AND version() LIKE '%-linux%'`) {
			t.Skip("SKIPPED, NOTHING WAS TESTED: client_connection_check_interval wants PostgreSQL 14 on Linux, and no value set by the server")
		}
		peer := f.direct(t)
		_, err := f.beside(t).Exec(ctx, `SELECT pg_advisory_xact_lock(4711)`)
		require.NoError(t, err)
		vanishing := f.start(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(4711)`)
			return ticket{}, err
		})
		f.eventually(t, waitingInside, 1)
		proxy.Refuse(true) // a dead process sends no cancel request either
		require.Positive(t, proxy.CutAll())
		require.Error(t, receive(t, ctx, vanishing).err)

		e := &tool{ref: "k"}
		result, err := dedup.Do(ctx, peer, call("k"), e.run)
		require.NoError(t, err)
		require.False(t, result.Replayed)
		require.Equal(t, 1, f.effects(t, "k"))
	})
}
