package run

import (
	"fmt"
	"slices"
	"time"

	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// A bound is one figure of a report and the range that it must stay in.
type bound struct {
	way    string
	kind   Kind
	figure figure
	// load is the load of a ratio. A count has none.
	load Load
	// least and most are the range. A most of 0 is unbounded.
	least, most float64
}

type figure string

const (
	ratio       figure = "ratio"
	medianRatio figure = "ratio of p50"
	roundTrips  figure = "round trips"
	walBytes    figure = "WAL bytes"
	storedBytes figure = "stored bytes"
	allocs      figure = "allocations"
)

const (
	near = 500 * time.Microsecond
	// nothing is the most WAL, in bytes a call, beside calls that write nothing: the server writes
	// some on its own. A write leaves at least a hundred.
	nothing = 10
)

// allBounds is the only place with the bounds. The ratios are well below the measured ones: they
// must hold on a loaded machine with two cores. With one client they compare the p50: a few commits
// that a busy disk delays make the rates of all ways alike. The counts are exact, except the
// allocations, which a release of Go may change. They include the effect's own.
var allBounds = []bound{
	{way: "do", kind: First, figure: medianRatio, load: Load{near, 1}, least: 0.75},
	{way: "do", kind: First, figure: ratio, load: Load{0, 16}, least: 0.45},
	{way: "do", kind: First, figure: roundTrips, least: 3, most: 3},
	{way: "do", kind: First, figure: walBytes, most: 700},
	{way: "do", kind: First, figure: storedBytes, most: 350},
	{way: "do", kind: First, figure: allocs, most: 70},
	{way: "do", kind: Replay, figure: walBytes, most: nothing},

	{way: "look-first", kind: Replay, figure: ratio, load: Load{0, 16}, least: 3},
	{way: "look-first", kind: Replay, figure: roundTrips, least: 1, most: 1},
	{way: "look-first", kind: Replay, figure: walBytes, most: nothing},

	// With a third round trip it could not be above 1.
	{way: "statement", kind: First, figure: medianRatio, load: Load{near, 1}, least: 1.35},
	{way: "statement", kind: First, figure: ratio, load: Load{0, 16}, least: 0.5},
	{way: "statement", kind: First, figure: roundTrips, least: 2, most: 2},
	{way: "statement", kind: First, figure: walBytes, most: 700},
	{way: "statement", kind: First, figure: storedBytes, most: 350},
	{way: "statement", kind: Replay, figure: walBytes, most: nothing},

	// BEGIN travels with the look-up.
	{way: "begin-func", kind: First, figure: medianRatio, load: Load{near, 1}, least: 0.6},
	{way: "begin-func", kind: First, figure: roundTrips, least: 4, most: 4},

	{way: "batch", kind: First, figure: medianRatio, load: Load{near, 1}, least: 25},
	{way: "batch", kind: First, figure: ratio, load: Load{0, 16}, least: 2.5},
	{way: "batch", kind: First, figure: walBytes, most: 700},
	{way: "batch", kind: First, figure: storedBytes, most: 350},
	{way: "batch", kind: Replay, figure: walBytes, most: nothing},
}

// bounded reports whether there is a bound under the load.
func bounded(load Load) bool {
	return slices.ContainsFunc(allBounds, func(b bound) bool { return b.load == load })
}

// value returns the report's value for the bound, if it was measured.
func (b bound) value(r *Report) (_ float64, measured bool) {
	cost, cell, base := r.Cost(b.way, b.kind), r.Cell(b.way, b.kind, b.load), r.Cell(way.Base, First, b.load)
	switch b.figure {
	case ratio:
		return cell.Ratio, cell.Way != ""
	case medianRatio:
		return float64(way.Named(b.way).Batch) * float64(base.P50) / float64(cell.P50), cell.Way != "" && base.Way != ""
	case roundTrips:
		return cost.RoundTrips, cost.Way != ""
	case walBytes:
		return cost.WALBytes, cost.Way != ""
	case storedBytes:
		return cost.StoredBytes, cost.Way != ""
	case allocs:
		return cost.Allocs, cost.Way != ""
	}
	return 0, false
}

func (b bound) holds(value float64) bool {
	return value >= b.least && (b.most == 0 || value <= b.most)
}

func (b bound) allowed() string {
	switch {
	case b.least == b.most:
		return fmt.Sprintf("exactly %g", b.least)
	case b.most == 0:
		return fmt.Sprintf("at least %g", b.least)
	}
	return fmt.Sprintf("at most %g", b.most)
}

// String names the figure.
func (b bound) String() string {
	text := fmt.Sprintf("%s, %s: %s", b.way, b.kind, b.figure)
	if b.load != (Load{}) {
		text += fmt.Sprintf(" at %s, clients: %d", b.load, b.load.Clients)
	}
	return text
}
