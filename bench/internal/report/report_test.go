package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/report"
)

var update = flag.Bool("update", false, "write the golden file anew")

func small() *report.Report {
	const near = 500 * time.Microsecond
	return &report.Report{
		Machine: report.Machine{
			OS: "linux/amd64", Cores: 2, Go: "go1.26.0", Postgres: "15.1", Source: "PostgreSQL 15.1 from /usr/lib", Redis: "7.0.15",
			Settings: map[string]string{"fsync": "on", "synchronous_commit": "on"},
		},
		Settings: report.Settings{Rounds: 3, Duration: 400 * time.Millisecond, MinOps: 20, To: "bare"},
		Lines:    []report.Line{{RoundTrip: 70 * time.Microsecond}, {Delay: near, RoundTrip: 1190 * time.Microsecond}},
		Ways: []report.Way{
			{Name: "bare", Title: "bare transaction", Batch: 1},
			{Name: "do", Title: "dedup.Do", Batch: 1},
			{Name: "redis", Title: "Redis", Batch: 1},
		},
		Cells: []report.Cell{
			{Way: "bare", Kind: report.First, Clients: 1, PerSecond: 3600, Slowest: 3500, Fastest: 3700, Ratio: 1, P50: 280 * time.Microsecond, P99: time.Millisecond},
			{Way: "bare", Kind: report.First, Clients: 16, PerSecond: 9000, Slowest: 6000, Fastest: 9500, Ratio: 1, P50: 1390 * time.Microsecond, P99: 9510 * time.Microsecond},
			{Way: "do", Kind: report.First, Clients: 1, PerSecond: 2880, Processor: 98700, Ratio: 0.8, P50: 350 * time.Microsecond, P99: 15 * time.Millisecond},
			{Way: "do", Kind: report.OneKey, Delay: near, Clients: 16, PerSecond: 80000, Ratio: 10.123, P50: time.Microsecond, P99: 150 * time.Millisecond},
		},
		Costs: []report.Cost{
			{Way: "do", Kind: report.First, RoundTrips: 3, WALBytes: 544.4, Flushes: 1, Allocs: 70, AllocBytes: 9000, StoredBytes: 288},
			{Way: "do", Kind: report.Replay, RoundTrips: 0.01, Allocs: 40, AllocBytes: 700},
			{Way: "redis", Kind: report.First, RoundTrips: 3, RedisRoundTrips: 4, WALBytes: 140, PageImages: 0.16, Flushes: 1, Allocs: 80, AllocBytes: 2814},
		},
		Skipped: []report.Skipped{{Way: "river", Reason: "it was not there"}},
	}
}

func TestTable(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	report.WriteTable(&out, small())
	const file = "testdata/table.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
	}
	golden, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(golden), out.String())
}

func TestJSON(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, report.WriteJSON(file, small()))
	read, err := report.ReadJSON[report.Report](file)
	require.NoError(t, err)
	require.Equal(t, small(), read)

	_, err = report.ReadJSON[report.Report](filepath.Join(t.TempDir(), "absent.json"))
	require.ErrorContains(t, err, "reading the result")
	require.Error(t, report.WriteJSON(t.TempDir(), small()), "a folder is no file")
}
