package contract_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatementIsPreparedOnce: a statement that is new to a connection is prepared in one round
// trip.
func TestStatementIsPreparedOnce(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil, poolOfOne)
	_, err := byStatement(ctx, f.d, call("trusted"))
	require.NoError(t, err)
	f.pool.Reset()
	for _, extra := range []int{1, 0, 0} {
		key := fmt.Sprint("extra ", f.records(t))
		conn, err := f.pool.Acquire(ctx) // connects
		require.NoError(t, err)
		conn.Release()
		require.Equal(t, 2+extra, trips(t, proxy, func() {
			_, err := byStatement(ctx, f.d, call(key))
			require.NoError(t, err)
		}))
	}
}
