package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// TestLongAllWays measures every way at once, with as many clients as the default has.
func TestLongAllWays(t *testing.T) {
	t.Parallel()

	o := Options{
		Rounds: 1, Delays: []time.Duration{0}, Clients: []int{16}, To: way.Base, RedisFolder: "../../../.cache/redis",
		minOps: 1, seeds: 32, trips: 3, costOps: 8,
	}
	r, err := measureAll(t.Context(), o, t.Logf)
	require.NoError(t, err)
	require.Len(t, r.Ways, len(way.All())-len(r.Skipped))
	for _, w := range r.Ways {
		first, ok := r.Cell(w.Name, report.First, 0, 16)
		require.True(t, ok, w.Name)
		require.Positive(t, first.Ops, w.Name)
	}
}
