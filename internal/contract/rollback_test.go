package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestReplaysKeepTheirConnection: a replay rolls its transaction back, and the
// connection stays good for the next.
func TestReplaysKeepTheirConnection(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	f.warm(t)
	before := proxy.Snapshot()
	for range 3 {
		result, err := dedup.Do(ctx, f.d, call("warm"), effect("warm"))
		require.NoError(t, err)
		require.True(t, result.Replayed)
	}
	require.Equal(t, before.Connections, proxy.Snapshot().Connections)
}
