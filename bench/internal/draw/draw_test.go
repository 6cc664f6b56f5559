package draw

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/scale"
)

var update = flag.Bool("update", false, "write the golden files anew")

var files = Options{Run: "testdata/run.json", Growth: "testdata/growth.json", Clients: "testdata/clients.json"}

// From the command line to the files.
func TestCommand(t *testing.T) {
	t.Parallel()

	out := t.TempDir()
	cmd := Command()
	cmd.SetArgs([]string{"--run", files.Run, "--growth", files.Growth, "--clients", files.Clients, "--out", out})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	for _, name := range []string{"bench-ways.svg", "bench-growth.svg", "bench-clients.svg"} {
		drawn, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		golden := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(golden, drawn, 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), string(drawn), "if this is meant, run the test with -update and look at the chart")
	}
}

func TestWays(t *testing.T) {
	t.Parallel()

	r, err := report.ReadJSON[report.Report](files.Run)
	require.NoError(t, err)
	c, err := waysChart(r)
	require.NoError(t, err)
	require.Equal(t, []string{"loopback", "0.25 ms each way", "0.5 ms each way", "2 ms each way"}, c.series)
	var labels []string
	for _, group := range c.groups {
		labels = append(labels, group.label)
		require.Len(t, group.values, 4)
	}
	require.Equal(t, []string{"dedup.DoStatement", "dedup.Do", "textbook pattern", "DBOS, one pool"}, labels, "no base, no batch")
	require.Equal(t, []float64{0.7, 0.94, 0.96, 0.99}, c.groups[1].values, "first calls of one client")
	require.Equal(t, -1.0, c.groups[3].values[3], "it was not measured")
	require.Contains(t, c.xLabel, "\nOff the scale: dedup.DoBatch of 100, 9.40 to 150 times the plain transaction for each call.")

	r.Lines = r.Lines[:1]
	r.Cells = r.Cells[:1]
	_, err = waysChart(r)
	require.ErrorContains(t, err, "no first calls")
	require.Empty(t, batchNote(r))
}

func TestGrowth(t *testing.T) {
	t.Parallel()

	g, err := report.ReadJSON[scale.Growth](files.Growth)
	require.NoError(t, err)
	c, err := growthChart(g)
	require.NoError(t, err)
	require.Len(t, c.series, 3)
	require.Equal(t, "ordered keys", c.series[0].name)
	require.Equal(t, "plain transaction", c.series[2].name)
	for _, s := range c.series {
		require.Len(t, s.points, 3, "only those of one client")
		require.Equal(t, []float64{1e4, 1e6, 2e7}, []float64{s.points[0].X, s.points[1].X, s.points[2].X})
	}
	require.Equal(t, 0.34, c.series[0].points[0].Y, "in milliseconds")
	require.Equal(t, 0.25, c.series[2].points[0].Y, "the middle of 0.24 and 0.26")

	_, err = growthChart(&scale.Growth{})
	require.ErrorContains(t, err, "no measurement")
}

func TestClients(t *testing.T) {
	t.Parallel()

	r, err := report.ReadJSON[report.Report](files.Clients)
	require.NoError(t, err)
	c, err := clientsChart(r)
	require.NoError(t, err)
	var names []string
	for _, s := range c.series {
		names = append(names, s.name)
		require.Len(t, s.points, 3)
	}
	require.Equal(t, []string{"plain transaction", "dedup.Do", "dedup.DoStatement", "textbook pattern", "replay in one trip"}, names)
	require.Equal(t, 23000.0, c.series[4].points[0].Y, "of replays, not of first calls")

	for i := range r.Cells {
		r.Cells[i].Delay = time.Millisecond
	}
	_, err = clientsChart(r)
	require.ErrorContains(t, err, "no calls on the loopback")
}

func TestUnusable(t *testing.T) {
	t.Parallel()

	empty := filepath.Join(t.TempDir(), "empty.json")
	require.NoError(t, os.WriteFile(empty, []byte("{}"), 0o644))
	for says, spoil := range map[string]func(*Options){
		"absent.json":         func(o *Options) { o.Run = "absent.json" },
		"--run " + empty:      func(o *Options) { o.Run = empty },
		"--growth " + empty:   func(o *Options) { o.Growth = empty },
		"--clients " + empty:  func(o *Options) { o.Clients = empty },
		"drawing: ":           func(o *Options) { o.Out = "absent" },
		"reading the result ": func(o *Options) { o.Growth = "draw_test.go" },
	} {
		o := files
		o.Out = t.TempDir()
		spoil(&o)
		require.ErrorContains(t, o.draw(), says)
	}
}
