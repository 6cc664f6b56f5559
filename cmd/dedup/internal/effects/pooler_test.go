package effects_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgbouncer"
)

// A pooler that gives each transaction another server connection, and tracks no prepared
// statements, is in nobody's way.
func TestThroughPooler(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.park(t, "order-7")
	direct := b.db.URL
	through, err := pgbouncer.New(t, direct, "pool_mode = transaction", "server_round_robin = 1", "default_pool_size = 2").URL(direct)
	require.NoError(t, err)
	for range 5 {
		listed := run(t.Context(), "parked", "--json", "--database-url", through)
		require.Equal(t, exit.OK, listed.code, listed.errOut)
		op := operations(t, listed.out)[0]
		got := run(t.Context(), "resolve", "acme", "pay", op.Key, "--fence", fmt.Sprint(op.Fence), "--refuse", "--overrule", "--reason", "r", "--json", "--database-url", through)
		require.Equal(t, exit.OK, got.code, got.errOut)
		require.Greater(t, operations(t, got.out)[0].Fence, op.Fence)
	}
}
