package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestArbiterWithoutUsage: a role that may not look into the schema is told so,
// and the caller's transaction goes on.
func TestArbiterWithoutUsage(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, &dedup.Options{Schema: "hidden"})
		role := pgx.Identifier{"nobody_" + f.db.Name[:24]}.Sanitize() // roles belong to the server
		f.exec(t, `CREATE SCHEMA hidden`)
		f.exec(t, `CREATE ROLE `+role)
		t.Cleanup(func() {
			_, err := f.pool.Exec(context.WithoutCancel(ctx), `DROP ROLE `+role)
			require.NoError(t, err)
		})
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `SET LOCAL ROLE `+role)
		require.NoError(t, err)
		e := &tool{ref: "k"}
		_, err = dedup.DoTx(ctx, f.d, tx, call("k"), e.run)
		require.ErrorIs(t, err, dedup.ErrArbiter)
		e.requireRuns(t, 0)
		_, err = tx.Exec(ctx, `RESET ROLE`)
		require.NoError(t, err)
		requireUsable(t, ctx, tx)
		require.NoError(t, tx.Commit(ctx))
		require.Equal(t, 1, f.effects(t, "after"))
	})
}
