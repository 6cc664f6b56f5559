package bounds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/bounds"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

func TestBoundsAreSane(t *testing.T) {
	t.Parallel()

	all := bounds.All()
	_, err := way.Choose(bounds.Ways(all))
	require.NoError(t, err)
	wants := bounds.Wants(all)
	for _, b := range all {
		loaded := b.What == bounds.Ratio || b.What == bounds.MedianRatio
		require.Equal(t, loaded, wants(b.Way, b.Kind, b.Delay, b.Clients) && b.Clients > 0, "%s: a ratio has a load, a count has none", b)
		require.True(t, b.Least > 0 || b.Most > 0, "%s allows everything", b)
		require.True(t, b.Most == 0 || b.Least <= b.Most, "%s allows nothing", b)
	}
}

// Only what is judged is measured.
func TestWants(t *testing.T) {
	t.Parallel()

	one := []bounds.Bound{
		{Way: "do", Kind: report.First, What: bounds.Ratio, Clients: 16, Least: 1},
		{Way: "batch", Kind: report.Replay, What: bounds.RoundTrips, Most: 1},
	}
	require.Equal(t, []string{way.Base, "do", "batch"}, bounds.Ways(one))
	wants := bounds.Wants(one)
	require.True(t, wants("do", report.First, 0, 16))
	require.True(t, wants(way.Base, report.First, 0, 16), "what it is compared with")
	require.False(t, wants("do", report.First, 0, 1))
	require.False(t, wants("do", report.First, 1, 16))
	require.False(t, wants("do", report.Replay, 0, 16))
	require.False(t, wants("batch", report.Replay, 0, 16), "a count takes no load")
	require.False(t, wants(way.Base, report.First, 0, 1))
}
