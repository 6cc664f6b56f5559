package scale

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

func TestLongGrowth(t *testing.T) {
	t.Parallel()
	o := GrowthOptions{
		Sizes: []int{200, 1000}, Clients: []int{1, 4},
		Kinds:  []KeyKind{OrderedKeys, RandomKeys},
		Rounds: 3, Calls: 20, Real: 100,
	}
	g, err := growth(t.Context(), setup(t), o)
	require.NoError(t, err)

	require.Len(t, g.Rows, 2*2*2, "kinds, sizes, clients")
	for _, row := range g.Rows {
		for _, way := range []measure.Latency{row.Bare, row.Small, row.Call} {
			require.Equal(t, 3*20, way.Calls)
			require.Positive(t, way.P50)
			require.GreaterOrEqual(t, way.P99, way.P50)
		}
		require.Positive(t, row.ToSmall)
		require.Positive(t, row.ToBare)
	}
	require.Len(t, g.Writes, 2*2)
	for _, write := range g.Writes {
		require.Greater(t, write.Warm, 300.0, "a row, two entries and a COMMIT")
		require.Equal(t, 20+2*3*20, write.Before)
	}
	require.Len(t, g.Weights, 2*2, "calls and COPY")
	for _, w := range g.Weights {
		require.EqualValues(t, map[string]int{"calls": 100, "COPY": 1000}[w.Filled], w.Records)
		require.Greater(t, ratio(w.Heap, w.Records), 150.0)
	}

	var out bytes.Buffer
	g.write(&out)
	require.Contains(t, out.String(), "to small table")
}

func TestGrowthFlags(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"--sizes", "0"}, {"--sizes", ""}, {"--calls", "0"}, {"--real", "0"}, {"argument"}} {
		refused(t, GrowthCommand(), args)
	}
}
