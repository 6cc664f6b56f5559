// Package bounds holds what the library may cost, as ratios to the bare
// transaction and as counts, and compares a measured report with it.
package bounds

import (
	"slices"
	"time"

	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// A Bound is one value of a report and the range that it must stay in.
type Bound struct {
	Way  string
	Kind report.Kind
	What What
	// Delay and Clients name the load of a ratio.
	Delay   time.Duration
	Clients int
	// Least and Most are the range. A Most of 0 means that there is no most.
	Least, Most float64
}

// What names a value.
type What string

// The values that have bounds.
const (
	Ratio       What = "ratio"
	MedianRatio What = "ratio of p50"
	RoundTrips  What = "round trips"
	WALBytes    What = "WAL bytes"
	StoredBytes What = "stored bytes"
	Allocs      What = "allocations"
)

const (
	near = 500 * time.Microsecond
	// nothing is the most that a call which writes nothing has to its name in
	// WAL: what the server writes meanwhile on its own, in bytes a call. The
	// least that a write can leave is a hundred.
	nothing = 10
)

// All are the bounds, the only place where they stand. The ratios are set well
// below what is measured, for they must hold on a loaded machine of two cores. With
// one client they are those of the p50: a few commits that a busy disk holds up for
// long make the rates of all ways alike. The counts are exact, but for allocations,
// which a release of Go may change; they include the effect's own.
var all = []Bound{
	{Way: "do", Kind: report.First, What: MedianRatio, Delay: near, Clients: 1, Least: 0.75},
	{Way: "do", Kind: report.First, What: Ratio, Delay: 0, Clients: 16, Least: 0.45},
	{Way: "do", Kind: report.First, What: RoundTrips, Least: 3, Most: 3},
	{Way: "do", Kind: report.First, What: WALBytes, Most: 700},
	{Way: "do", Kind: report.First, What: StoredBytes, Most: 350},
	{Way: "do", Kind: report.First, What: Allocs, Most: 70},
	{Way: "do", Kind: report.Replay, What: WALBytes, Most: nothing},

	{Way: "look-first", Kind: report.Replay, What: Ratio, Delay: 0, Clients: 16, Least: 3},
	{Way: "look-first", Kind: report.Replay, What: RoundTrips, Least: 1, Most: 1},
	{Way: "look-first", Kind: report.Replay, What: WALBytes, Most: nothing},

	// With a second round trip it could not be above 1.5.
	{Way: "statement", Kind: report.First, What: MedianRatio, Delay: near, Clients: 1, Least: 1.6},
	{Way: "statement", Kind: report.First, What: Ratio, Delay: 0, Clients: 16, Least: 0.7},
	{Way: "statement", Kind: report.First, What: RoundTrips, Least: 1, Most: 1},
	{Way: "statement", Kind: report.First, What: WALBytes, Most: 700},
	{Way: "statement", Kind: report.First, What: StoredBytes, Most: 350},
	{Way: "statement", Kind: report.Replay, What: WALBytes, Most: nothing},

	{Way: "batch", Kind: report.First, What: MedianRatio, Delay: near, Clients: 1, Least: 25},
	{Way: "batch", Kind: report.First, What: Ratio, Delay: 0, Clients: 16, Least: 2.5},
	{Way: "batch", Kind: report.First, What: WALBytes, Most: 700},
	{Way: "batch", Kind: report.First, What: StoredBytes, Most: 350},
	{Way: "batch", Kind: report.Replay, What: WALBytes, Most: nothing},
}

// All returns the bounds.
func All() []Bound { return slices.Clone(all) }

// Wants says of each load of a way whether it is needed to judge the bounds: of
// the base always, and else of what has a bound.
func Wants(bounds []Bound) func(name string, kind report.Kind, delay time.Duration, clients int) bool {
	return func(name string, kind report.Kind, delay time.Duration, clients int) bool {
		return slices.ContainsFunc(bounds, func(b Bound) bool {
			judged := b.Way == name && b.Kind == kind || name == way.Base && kind == report.First
			return b.loads() && judged && b.Delay == delay && b.Clients == clients
		})
	}
}

// Ways returns the names of the ways that have bounds, and the base.
func Ways(bounds []Bound) []string {
	names := []string{way.Base}
	for _, b := range bounds {
		if !slices.Contains(names, b.Way) {
			names = append(names, b.Way)
		}
	}
	return names
}

// loads says whether the value is measured under a load.
func (b Bound) loads() bool { return b.What == Ratio || b.What == MedianRatio }
