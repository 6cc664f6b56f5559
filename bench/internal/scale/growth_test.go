package scale

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

func TestGrowth(t *testing.T) {
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
	require.Len(t, g.Goals, 2*2+1+4)

	var out bytes.Buffer
	require.NoError(t, g.write(&out))
	require.Contains(t, out.String(), "random keys, clients: 4")
}

func TestGrowthGoals(t *testing.T) {
	t.Parallel()

	g := Growth{
		Rows: []GrowthRow{
			{Keys: OrderedKeys, Records: 10, Clients: 1, ToSmall: 9},
			{Keys: OrderedKeys, Records: 20, Clients: 1, ToSmall: 1.2},
			{Keys: RandomKeys, Records: 20, Clients: 1, ToSmall: 1.3},
		},
		Writes:  []GrowthWrite{{Keys: OrderedKeys, Records: 20, Fresh: 900, Warm: 600}, {Keys: RandomKeys, Records: 20, Warm: 9000}},
		Weights: []Weight{{Keys: OrderedKeys, Filled: "COPY", Sizes: Sizes{Records: 10, Total: 3510}}},
	}
	var met []bool
	for _, goal := range g.goals(GrowthOptions{Sizes: []int{10, 20}}) {
		met = append(met, goal.Met)
	}
	require.Equal(t, []bool{true, false, true, false}, met)
}

func TestGrowthFlags(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"--sizes", "0"}, {"--sizes", ""}, {"argument"}} {
		refused(t, GrowthCommand(), args)
	}
}
