package run

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

func TestBoundsAreSane(t *testing.T) {
	t.Parallel()

	for _, b := range allBounds {
		require.NotEmpty(t, way.Named(b.way).Name)
		isRatio := b.figure == ratio || b.figure == medianRatio
		require.Equal(t, isRatio, b.load.Clients > 0, "%s: a ratio has a load, a count has none", b)
		require.True(t, b.least > 0 || b.most > 0, "%s allows everything", b)
		require.True(t, b.most == 0 || b.least <= b.most, "%s allows nothing", b)
	}
}

var few = []bound{
	{way: "do", kind: First, figure: ratio, load: Load{near, 1}, least: 0.75},
	{way: "batch", kind: First, figure: medianRatio, load: Load{0, 1}, least: 25},
	{way: "do", kind: First, figure: roundTrips, least: 3, most: 3},
	{way: "do", kind: First, figure: allocs, most: 75},
	{way: "do", kind: First, figure: storedBytes, most: 350},
	{way: "do", kind: Replay, figure: walBytes, most: 10},
}

// kept is a report that keeps all of a few bounds.
func kept() *Report {
	return &Report{
		Cells: []Cell{
			{Way: "do", Kind: First, Load: Load{near, 1}, Ratio: 0.9},
			{Way: "do", Kind: First, Load: Load{0, 1}, Ratio: 0.1}, // another load's
			{Way: "bare", Kind: First, Load: Load{0, 1}, Ratio: 1, Latency: measure.Latency{P50: 2000}},
			{Way: "batch", Kind: First, Load: Load{0, 1}, Ratio: 1, Latency: measure.Latency{P50: 5000}},
		},
		Costs: []Cost{
			{Way: "do", Kind: First, RoundTrips: 3, Allocs: 70, WALBytes: 500, StoredBytes: 330},
			{Way: "do", Kind: Replay},
		},
	}
}

func TestCheckHolds(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	broken, err := check(&out, few, kept())
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Contains(t, out.String(), "do, first: ratio at 0.5 ms each way, clients: 1  at least 0.75      0.90  ok\n")
	require.Contains(t, out.String(), "do, first: round trips      exactly 3      3.00  ok\n")
	require.Contains(t, out.String(), "do, replay: WAL bytes     at most 10      0.00  ok\n")
}

func TestCheckBreaks(t *testing.T) {
	t.Parallel()

	for at, test := range []struct {
		bound int
		spoil func(*Report)
		says  string
	}{
		{0, func(r *Report) { r.Cells[0].Ratio = 0.74 }, "at least 0.75      0.74  BROKEN"},
		{1, func(r *Report) { r.Cells[3].P50 *= 2 }, "at least 25     20.00  BROKEN"},
		{2, func(r *Report) { r.Costs[0].RoundTrips = 4 }, "exactly 3      4.00  BROKEN"},
		{2, func(r *Report) { r.Costs[0].RoundTrips = 2 }, "exactly 3      2.00  BROKEN"},
		{3, func(r *Report) { r.Costs[0].Allocs = 76 }, "at most 75     76.00  BROKEN"},
		{4, func(r *Report) { r.Costs[0].StoredBytes = 360 }, "at most 350    360.00  BROKEN"},
		{5, func(r *Report) { r.Costs[1].WALBytes = 120 }, "at most 10    120.00  BROKEN"},
	} {
		r := kept()
		test.spoil(r)
		var out bytes.Buffer
		broken, err := check(&out, few, r, r)
		require.NoError(t, err, at)
		require.Equal(t, few[test.bound:test.bound+1], broken, at)
		require.Contains(t, out.String(), test.says)
	}
}

// A bound holds if one of two measurements keeps it: the machine spoiled the other one.
func TestCheckHoldsOnce(t *testing.T) {
	t.Parallel()

	slow, slower := kept(), kept()
	slow.Cells[0].Ratio = 0.5
	slower.Cells[0].Ratio, slower.Costs[0].Allocs = 0.4, 76
	broken, err := check(&bytes.Buffer{}, few, slow, kept())
	require.NoError(t, err)
	require.Empty(t, broken)
	broken, err = check(&bytes.Buffer{}, few, slow, slower)
	require.NoError(t, err)
	require.Equal(t, few[:1], broken, "the allocations held in the first")
}

// A bound without a measurement does not hold.
func TestCheckMisses(t *testing.T) {
	t.Parallel()

	_, err := check(&bytes.Buffer{}, few, &Report{})
	require.ErrorContains(t, err, "the report has no do, first: ratio")
	require.ErrorContains(t, err, "the report has no do, first: round trips")
}
