package run

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
)

// A Kind is what is measured of a way.
type Kind string

// The kinds of calls.
const (
	First  Kind = "first"   // a call with a new key
	Replay Kind = "replay"  // of one of many calls that were made
	OneKey Kind = "one-key" // of one call, by all clients at the same time, in one process
)

// kinds are all kinds in the order of the report, with their headings.
var kinds = []struct {
	kind  Kind
	title string
}{
	{First, "First calls"},
	{Replay, "Replays of many keys"},
	{OneKey, "All clients replay one key, in one process"},
}

// A Report is what a run has found. All durations are nanoseconds in its JSON.
type Report struct {
	Machine  bed.Machine   `json:"machine"`
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration_ns"` // of one cell in one round
	To       string        `json:"to"`          // the way that the ratios are to
	Lines    []Line        `json:"lines"`
	Ways     []Way         `json:"ways"`
	Cells    []Cell        `json:"cells"`
	Costs    []Cost        `json:"costs"`
}

// A Line is the way to the servers.
type Line struct {
	Delay     time.Duration `json:"delay_ns"`      // asked for, each way; 0: no proxy
	RoundTrip time.Duration `json:"round_trip_ns"` // of SELECT 1, measured, median
}

// A Way is one that was measured, or skipped.
type Way struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Batch   int    `json:"batch"` // calls in one operation; latencies are those of operations
	Skipped string `json:"skipped,omitempty"`
}

// A Cell is the measure of one way under one load.
type Cell struct {
	Way     string        `json:"way"`
	Kind    Kind          `json:"kind"`
	Delay   time.Duration `json:"delay_ns"`
	Clients int           `json:"clients"`

	PerSecond float64       `json:"per_second"` // calls; median over the rounds
	P50       time.Duration `json:"p50_ns"`     // of an operation, over all rounds
	P99       time.Duration `json:"p99_ns"`
	Ops       int           `json:"ops"` // behind the percentiles
	// Processor is the time that the client's process used for a call; median over the rounds.
	Processor time.Duration `json:"client_processor_ns"`
	// Ratio is that of PerSecond to the same of Report.To: the median over the rounds, the least and the most.
	Ratio     float64 `json:"ratio"`
	RatioLow  float64 `json:"ratio_low"`
	RatioHigh float64 `json:"ratio_high"`
}

// A Cost is what one call of a way costs, measured with one client on loopback.
type Cost struct {
	Way  string `json:"way"`
	Kind Kind   `json:"kind"`

	RoundTrips      float64 `json:"round_trips"`       // with Postgres
	RedisRoundTrips float64 `json:"redis_round_trips"` // with Redis
	WALBytes        float64 `json:"wal_bytes"`
	PageImages      float64 `json:"page_images"` // in those bytes; about 0, or the warming failed
	Flushes         float64 `json:"flushes"`     // of the WAL to disk
	Allocs          float64 `json:"allocs"`      // on the client
	AllocBytes      float64 `json:"alloc_bytes"`
	StoredBytes     float64 `json:"stored_bytes"` // of First only: records, their indexes, without the effect
}

// Cell returns the cell of the way under the load.
func (r *Report) Cell(way string, kind Kind, delay time.Duration, clients int) (Cell, bool) {
	return find(r.Cells, func(c Cell) bool {
		return c.Way == way && c.Kind == kind && c.Delay == delay && c.Clients == clients
	})
}

// Way returns the way of the name.
func (r *Report) Way(name string) (Way, bool) {
	return find(r.Ways, func(w Way) bool { return w.Name == name })
}

// Cost returns the cost of the way.
func (r *Report) Cost(way string, kind Kind) (Cost, bool) {
	return find(r.Costs, func(c Cost) bool { return c.Way == way && c.Kind == kind })
}

func find[T any](all []T, wanted func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(all, wanted); i >= 0 {
		return all[i], true
	}
	return found, false
}

// String says how far away the servers are.
func (l Line) String() string {
	if l.Delay == 0 {
		return "loopback"
	}
	return fmt.Sprintf("%g ms each way", float64(l.Delay)/float64(time.Millisecond))
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) {
	r.Machine.Write(w)
	to, _ := r.Way(r.To)
	fmt.Fprintf(w, `%d rounds of %s, interleaved
calls a second and ratios to "%s" of the same round: medians over the rounds, and between the least and the most;
p50 and p99 of an operation, which for a batch is the whole batch;
client: processor time that the callers' process took for a call

`, r.Rounds, r.Duration, to.Title)
	for _, line := range r.Lines {
		for _, k := range kinds {
			r.writeCells(w, line, k.kind, k.title)
		}
	}
	r.writeCosts(w)
	for _, way := range r.Ways {
		if way.Skipped != "" {
			fmt.Fprintf(w, "skipped: %s: %s\n", way.Name, way.Skipped)
		}
	}
}

// writeCells writes one kind of calls over one line.
func (r *Report) writeCells(w io.Writer, line Line, kind Kind, title string) {
	of := func(c Cell) bool { return c.Delay == line.Delay && c.Kind == kind }
	if !slices.ContainsFunc(r.Cells, of) {
		return
	}
	fmt.Fprintf(w, "%s, %s (SELECT 1 takes %s)\n\n", title, line, measure.Text(line.RoundTrip))
	t := measure.NewTable(w, "", "clients", "calls a second", "ratio", "between", "p50", "p99", "client")
	for _, c := range r.Cells {
		if of(c) {
			way, _ := r.Way(c.Way)
			between := fmt.Sprintf("%.2f and %.2f", c.RatioLow, c.RatioHigh)
			t.Row(way.Title, c.Clients, int(c.PerSecond), c.Ratio, between, c.P50, c.P99, c.Processor)
		}
	}
	t.Flush()
}

func (r *Report) writeCosts(w io.Writer) {
	fmt.Fprintf(w, "What one call costs, one client on loopback\n\n")
	t := measure.NewTable(w, "", "", "round trips", "with Redis", "WAL bytes", "page images", "flushes",
		"allocations", "allocated bytes", "stored bytes")
	for _, c := range r.Costs {
		way, _ := r.Way(c.Way)
		t.Row(way.Title, c.Kind, c.RoundTrips, c.RedisRoundTrips, int(c.WALBytes), c.PageImages, c.Flushes,
			int(c.Allocs), int(c.AllocBytes), int(c.StoredBytes))
	}
	t.Flush()
}
