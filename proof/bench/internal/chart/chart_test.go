package chart

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/run"
	"github.com/tooldedup/dedup/proof/bench/internal/scale"
)

// From the command line to the files.
func TestCommand(t *testing.T) {
	t.Parallel()

	row := func(keys scale.KeyKind, records, clients int, p50 time.Duration) scale.GrowthRow {
		return scale.GrowthRow{Keys: keys, Records: records, Clients: clients, Call: measure.Latency{P50: p50}, Bare: measure.Latency{P50: p50 / 2}}
	}
	growth := &scale.Growth{Rows: []scale.GrowthRow{
		row(scale.OrderedKeys, 1000, 1, 2*time.Millisecond), row(scale.OrderedKeys, 1000, 16, time.Second),
		row(scale.OrderedKeys, 20_000, 1, 3*time.Millisecond), row(scale.RandomKeys, 1000, 1, 4*time.Millisecond),
	}}
	l := growthOf(growth)
	require.Len(t, l.series, 4)
	require.Equal(t, 2, l.series[0].points.Len(), "only those of one client")
	require.Equal(t, 3.0, l.series[0].points[1].Y, "in milliseconds")
	require.Equal(t, 1.5, l.series[1].points[1].Y)

	cell := func(way string, kind run.Kind, clients int, perSecond float64, delay time.Duration) run.Cell {
		return run.Cell{Way: way, Kind: kind, Load: run.Load{Delay: delay, Clients: clients}, Latency: measure.Latency{PerSecond: perSecond}}
	}
	clients := &run.Report{Cells: []run.Cell{
		cell("do", run.First, 1, 1000, 0), cell("do", run.Replay, 1, 3000, 0),
		cell("do", run.First, 16, 5000, 0), cell("do", run.First, 16, 7, 1),
		cell("look-first", run.Replay, 16, 23_000, 0),
	}}
	dir := t.TempDir()
	write := func(name string, result any) string {
		require.NoError(t, measure.WriteJSON(filepath.Join(dir, name), result))
		return filepath.Join(dir, name)
	}
	grown, ran, empty := write("growth.json", growth), write("clients.json", clients), write("empty.json", struct{}{})
	cmd := Command()
	cmd.SetArgs([]string{"--growth", grown, "--clients", ran, "--out", dir})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	for name, says := range map[string][]string{
		"bench-growth.svg":  {"random keys, at the end 4.00", ">20,000<", "A first call"},
		"bench-clients.svg": {"dedup.Do, at the end 5,000.00", "replay in one trip, at the end 23,000.00", ">16<"},
	} {
		drawn, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for _, text := range says {
			require.Contains(t, string(drawn), text)
		}
	}

	require.ErrorContains(t, drawAll("absent.json", ran, dir), "absent.json")
	require.ErrorContains(t, drawAll(grown, "chart_test.go", dir), "reading the result")
	require.ErrorContains(t, drawAll(empty, ran, dir), "nothing of it was measured")
	require.ErrorContains(t, drawAll(grown, empty, dir), "nothing of it was measured")
	require.ErrorContains(t, drawAll(grown, ran, "absent"), "drawing: ")
}
