package bounds

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/report"
)

var few = []Bound{
	{Way: "do", Kind: report.First, What: Ratio, Delay: 500 * time.Microsecond, Clients: 1, Least: 0.75},
	{Way: "batch", Kind: report.First, What: MedianRatio, Clients: 1, Least: 25},
	{Way: "do", Kind: report.First, What: RoundTrips, Least: 3, Most: 3},
	{Way: "do", Kind: report.First, What: Allocs, Most: 75},
	{Way: "do", Kind: report.First, What: StoredBytes, Most: 350},
	{Way: "do", Kind: report.Replay, What: WALBytes, Most: 10},
}

// measured is a report in which all of few hold.
func measured() *report.Report {
	return &report.Report{
		Cells: []report.Cell{
			{Way: "do", Kind: report.First, Delay: 500 * time.Microsecond, Clients: 1, Ratio: 0.9},
			{Way: "do", Kind: report.First, Clients: 1, Ratio: 0.1}, // another load's
			{Way: "bare", Kind: report.First, Clients: 1, Ratio: 1, P50: 2 * time.Millisecond},
			{Way: "batch", Kind: report.First, Clients: 1, Ratio: 1, P50: 5 * time.Millisecond},
		},
		Ways: []report.Way{{Name: "bare", Batch: 1}, {Name: "batch", Batch: 100}},
		Costs: []report.Cost{
			{Way: "do", Kind: report.First, RoundTrips: 3, Allocs: 70, WALBytes: 500, StoredBytes: 330},
			{Way: "do", Kind: report.Replay},
		},
	}
}

func TestCheckHolds(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	require.NoError(t, check(&out, few, measured()))
	require.Equal(t, `  bound                                                     allowed  measured
  --------------------------------------------------        -------  --------
  do, first: ratio at 0.5 ms each way, clients: 1     at least 0.75      0.90  ok
  batch, first: ratio of p50 at loopback, clients: 1    at least 25     40.00  ok
  do, first: round trips                                  exactly 3      3.00  ok
  do, first: allocations                                 at most 75     70.00  ok
  do, first: stored bytes                               at most 350    330.00  ok
  do, replay: WAL bytes                                  at most 10      0.00  ok

`, out.String())
}

func TestCheckBreaks(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		name  string
		spoil func(*report.Report)
		says  string
	}{
		{"TooSlow", func(r *report.Report) { r.Cells[0].Ratio = 0.74 }, "do, first: ratio at 0.5 ms each way, clients: 1 is 0.74, and must be at least 0.75"},
		{"SlowMedian", func(r *report.Report) { r.Cells[3].P50 *= 2 }, "batch, first: ratio of p50 at loopback, clients: 1 is 20.00, and must be at least 25"},
		{"OneTripMore", func(r *report.Report) { r.Costs[0].RoundTrips = 4 }, "do, first: round trips is 4.00, and must be exactly 3"},
		{"OneTripLess", func(r *report.Report) { r.Costs[0].RoundTrips = 2 }, "must be exactly 3"},
		{"MoreAllocations", func(r *report.Report) { r.Costs[0].Allocs = 76 }, "do, first: allocations is 76.00, and must be at most 75"},
		{"LargerRecord", func(r *report.Report) { r.Costs[0].StoredBytes = 360 }, "do, first: stored bytes is 360.00, and must be at most 350"},
		{"ReplayWrites", func(r *report.Report) { r.Costs[1].WALBytes = 120 }, "do, replay: WAL bytes is 120.00, and must be at most 10"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := measured()
			test.spoil(r)
			var out bytes.Buffer
			err := check(&out, few, r, r)
			var broken *BrokenError
			require.ErrorAs(t, err, &broken)
			require.Len(t, broken.Broken, 1)
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, "Run it again", "it says what to do")
			require.Contains(t, out.String(), "BROKEN")
		})
	}
}

// What held in one of two measurements was spoiled by the machine in the other.
func TestCheckHoldsOnce(t *testing.T) {
	t.Parallel()

	slow, slower := measured(), measured()
	onlyRatio := &report.Report{Cells: measured().Cells[:1]}
	slow.Cells[0].Ratio = 0.5
	slower.Cells[0].Ratio, slower.Costs[0].Allocs = 0.4, 76
	require.NoError(t, check(&bytes.Buffer{}, few, slow, measured()))
	require.NoError(t, check(&bytes.Buffer{}, few, slow, onlyRatio), "what held is not measured again")

	err := check(&bytes.Buffer{}, few, slow, slower)
	var broken *BrokenError
	require.ErrorAs(t, err, &broken)
	require.Len(t, broken.Broken, 1, "the allocations held in the first")
	require.ErrorContains(t, err, "is 0.40")
}

// A bound about something that was not measured is no bound that holds.
func TestCheckMisses(t *testing.T) {
	t.Parallel()

	err := check(&bytes.Buffer{}, few, &report.Report{})
	require.ErrorContains(t, err, "the report has no do, first: ratio")
	require.ErrorContains(t, err, "the report has no do, first: round trips")
}
