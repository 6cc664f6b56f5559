package run

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// A bound is one value of a report and the range that it must stay in.
type bound struct {
	way  string
	kind Kind
	what what
	// delay and clients name the load of a ratio.
	delay   time.Duration
	clients int
	// least and most are the range. A most of 0 means that there is no most.
	least, most float64
}

// what names a value.
type what string

const (
	ratio       what = "ratio"
	medianRatio what = "ratio of p50"
	roundTrips  what = "round trips"
	walBytes    what = "WAL bytes"
	storedBytes what = "stored bytes"
	allocs      what = "allocations"
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
	{way: "do", kind: First, what: medianRatio, delay: near, clients: 1, least: 0.75},
	{way: "do", kind: First, what: ratio, delay: 0, clients: 16, least: 0.45},
	{way: "do", kind: First, what: roundTrips, least: 3, most: 3},
	{way: "do", kind: First, what: walBytes, most: 700},
	{way: "do", kind: First, what: storedBytes, most: 350},
	{way: "do", kind: First, what: allocs, most: 70},
	{way: "do", kind: Replay, what: walBytes, most: nothing},

	{way: "look-first", kind: Replay, what: ratio, delay: 0, clients: 16, least: 3},
	{way: "look-first", kind: Replay, what: roundTrips, least: 1, most: 1},
	{way: "look-first", kind: Replay, what: walBytes, most: nothing},

	// With a second round trip it could not be above 1.5.
	{way: "statement", kind: First, what: medianRatio, delay: near, clients: 1, least: 1.6},
	{way: "statement", kind: First, what: ratio, delay: 0, clients: 16, least: 0.7},
	{way: "statement", kind: First, what: roundTrips, least: 1, most: 1},
	{way: "statement", kind: First, what: walBytes, most: 700},
	{way: "statement", kind: First, what: storedBytes, most: 350},
	{way: "statement", kind: Replay, what: walBytes, most: nothing},

	{way: "batch", kind: First, what: medianRatio, delay: near, clients: 1, least: 25},
	{way: "batch", kind: First, what: ratio, delay: 0, clients: 16, least: 2.5},
	{way: "batch", kind: First, what: walBytes, most: 700},
	{way: "batch", kind: First, what: storedBytes, most: 350},
	{way: "batch", kind: Replay, what: walBytes, most: nothing},
}

// boundWays are the names of the ways that have bounds, and the base.
func boundWays(bounds []bound) []string {
	names := []string{way.Base}
	for _, b := range bounds {
		if !slices.Contains(names, b.way) {
			names = append(names, b.way)
		}
	}
	return names
}

// judged says of a load whether it is needed to judge the bounds: of the base always, and else of
// what has a bound.
func judged(bounds []bound, name string, kind Kind, delay time.Duration, clients int) bool {
	return slices.ContainsFunc(bounds, func(b bound) bool {
		measured := b.way == name && b.kind == kind || name == way.Base && kind == First
		return b.loads() && measured && b.delay == delay && b.clients == clients
	})
}

// loads says whether the value is measured under a load.
func (b bound) loads() bool { return b.what == ratio || b.what == medianRatio }

// check compares what was measured, once or several times, with the bounds, and writes each beside its
// value. A bound is broken if no report keeps it, and those that are broken are returned: a busy machine breaks one now and then,
// a slow library every time. The error is that a report does not have what a bound is about.
func check(w io.Writer, bounds []bound, reports ...*Report) (broken []bound, err error) {
	t := measure.NewTable(w, "bound", "allowed", "measured", "")
	for _, b := range bounds {
		value, ok := b.measured(reports)
		if !ok {
			err = errors.Join(err, fmt.Errorf("the report has no %s", b))
			continue
		}
		verdict := "ok"
		if !b.holds(value) {
			verdict = "BROKEN"
			broken = append(broken, b)
		}
		t.Row(b, b.allowed(), value, verdict)
	}
	t.Flush()
	return broken, err
}

// measured is the value of the first report that keeps the bound, and of the last
// one if none does.
func (b bound) measured(reports []*Report) (value float64, ok bool) {
	for _, r := range reports {
		if value, ok = b.value(r); !ok || b.holds(value) {
			break
		}
	}
	return value, ok
}

func (b bound) value(r *Report) (float64, bool) {
	if !b.loads() {
		c, ok := r.Cost(b.way, b.kind)
		return map[what]float64{roundTrips: c.RoundTrips, walBytes: c.WALBytes, storedBytes: c.StoredBytes, allocs: c.Allocs}[b.what], ok
	}
	c, ok := r.Cell(b.way, b.kind, b.delay, b.clients)
	if b.what == ratio {
		return c.Ratio, ok
	}
	base, known := r.Cell(way.Base, First, b.delay, b.clients)
	w, _ := r.Way(b.way)
	return float64(w.Batch) * float64(base.P50) / float64(c.P50), ok && known
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

// String names the value.
func (b bound) String() string {
	text := fmt.Sprintf("%s, %s: %s", b.way, b.kind, b.what)
	if b.loads() {
		text += fmt.Sprintf(" at %s, clients: %d", Line{Delay: b.delay}, b.clients)
	}
	return text
}
