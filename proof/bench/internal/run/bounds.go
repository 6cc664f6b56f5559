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
	// load is that of a ratio; a count has none.
	load Load
	// least and most are the range. A most of 0 means that there is no most.
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
	// nothing is the most that a call which writes nothing has to its name in
	// WAL: what the server writes meanwhile on its own, in bytes a call. The
	// least that a write can leave is a hundred.
	nothing = 10
)

// allBounds is the only place where they stand. The ratios are set well
// below what is measured, for they must hold on a loaded machine of two cores. With
// one client they are those of the p50: a few commits that a busy disk holds up for
// long make the rates of all ways alike. The counts are exact, but for allocations,
// which a release of Go may change; they include the effect's own.
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

// value is what a report has for the bound, if it was measured.
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
