package run

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// A Kind is a kind of calls of a way.
type Kind string

// The kinds of calls.
const (
	First  Kind = "first"   // a call with a new key
	Replay Kind = "replay"  // repeats one of many earlier calls
	OneKey Kind = "one-key" // repeats one call, by all clients concurrently, in one process
)

// kinds are all kinds in the order of the report, and titles are their headings.
var (
	kinds  = []Kind{First, Replay, OneKey}
	titles = map[Kind]string{
		First: "First calls", Replay: "Replays of many keys", OneKey: "All clients replay one key, in one process",
	}
)

// A Report is the result of a run. All durations are nanoseconds in its JSON.
type Report struct {
	Machine  bed.Machine   `json:"machine"`
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration_ns"` // of one cell in one round
	To       string        `json:"to"`          // the base of the ratios
	Lines    []Line        `json:"lines"`
	Skipped  []string      `json:"skipped,omitempty"` // ways with their reasons
	Cells    []Cell        `json:"cells"`
	Costs    []Cost        `json:"costs"`
}

// A Line is the way to the servers.
type Line struct {
	Delay     time.Duration `json:"delay_ns"`      // requested, each way; 0: no proxy
	RoundTrip time.Duration `json:"round_trip_ns"` // of SELECT 1, measured, median
}

// A Load is the load of a measurement.
type Load struct {
	Delay   time.Duration `json:"delay_ns"`
	Clients int           `json:"clients"`
}

// A Cell is the result of one way under one load. Latencies are those of operations.
type Cell struct {
	Way  string `json:"way"`
	Kind Kind   `json:"kind"`
	Load
	measure.Latency
	// Processor is the processor time of the client's process for a call, the median of the rounds.
	Processor time.Duration `json:"client_processor_ns"`
	// Ratio is PerSecond divided by that of Report.To: the median of the rounds, the lowest and the
	// highest.
	Ratio     float64 `json:"ratio"`
	RatioLow  float64 `json:"ratio_low"`
	RatioHigh float64 `json:"ratio_high"`
}

// A Cost is the cost of one call of a way, measured with one client on the loopback.
type Cost struct {
	Way  string `json:"way"`
	Kind Kind   `json:"kind"`

	RoundTrips      float64 `json:"round_trips"`       // with Postgres
	RedisRoundTrips float64 `json:"redis_round_trips"` // with Redis
	WALBytes        float64 `json:"wal_bytes"`
	PageImages      float64 `json:"page_images"` // in those bytes; about 0 unless the warm operations failed
	Flushes         float64 `json:"flushes"`     // of the WAL to disk
	Allocs          float64 `json:"allocs"`      // on the client
	AllocBytes      float64 `json:"alloc_bytes"`
	StoredBytes     float64 `json:"stored_bytes"` // of First only: records, their indexes, without the effect
}

// Cell returns the cell of the way under the load, or an empty one.
func (r *Report) Cell(way string, kind Kind, load Load) Cell {
	return find(r.Cells, func(c Cell) bool { return c.Way == way && c.Kind == kind && c.Load == load })
}

// Cost returns the cost of the way, or an empty one.
func (r *Report) Cost(way string, kind Kind) Cost {
	return find(r.Costs, func(c Cost) bool { return c.Way == way && c.Kind == kind })
}

func find[T any](all []T, wanted func(T) bool) (found T) {
	if i := slices.IndexFunc(all, wanted); i >= 0 {
		return all[i]
	}
	return found
}

// String says how far away the servers are.
func (l Load) String() string {
	if l.Delay == 0 {
		return "loopback"
	}
	return fmt.Sprintf("%g ms each way", float64(l.Delay)/float64(time.Millisecond))
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) {
	r.Machine.Write(w)
	fmt.Fprintf(w, `%d rounds of %s, interleaved
calls a second and ratios to "%s" of the same round: medians over the rounds, and between the least and the most;
p50 and p99 of an operation, which for a batch is the whole batch;
client: processor time that the callers' process took for a call

`, r.Rounds, r.Duration, way.Named(r.To).Title)
	for _, line := range r.Lines {
		for _, kind := range kinds {
			r.writeCells(w, line, kind)
		}
	}
	fmt.Fprintf(w, "What one call costs, one client on loopback\n\n")
	t := measure.NewTable(w, "", "", "round trips", "with Redis", "WAL bytes", "page images", "flushes",
		"allocations", "allocated bytes", "stored bytes")
	for _, c := range r.Costs {
		t.Row(way.Named(c.Way).Title, c.Kind, c.RoundTrips, c.RedisRoundTrips, int(c.WALBytes), c.PageImages, c.Flushes,
			int(c.Allocs), int(c.AllocBytes), int(c.StoredBytes))
	}
	t.Flush()
	for _, skipped := range r.Skipped {
		fmt.Fprintf(w, "skipped: %s\n", skipped)
	}
}

// writeCells writes one kind of calls over one line.
func (r *Report) writeCells(w io.Writer, line Line, kind Kind) {
	of := func(c Cell) bool { return c.Delay == line.Delay && c.Kind == kind }
	if !slices.ContainsFunc(r.Cells, of) {
		return
	}
	fmt.Fprintf(w, "%s, %s (SELECT 1 takes %s)\n\n", titles[kind], Load{Delay: line.Delay}, measure.Text(line.RoundTrip))
	t := measure.NewTable(w, "", "clients", "calls a second", "ratio", "between", "p50", "p99", "client")
	for _, c := range r.Cells {
		if of(c) {
			between := fmt.Sprintf("%.2f and %.2f", c.RatioLow, c.RatioHigh)
			t.Row(way.Named(c.Way).Title, c.Clients, int(c.PerSecond), c.Ratio, between, c.P50, c.P99, c.Processor)
		}
	}
	t.Flush()
}
