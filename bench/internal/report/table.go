package report

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

// kinds are all kinds in the order of the table, with their headings.
var kinds = []struct {
	kind  Kind
	title string
}{
	{First, "First calls"},
	{Replay, "Replays of many keys"},
	{OneKey, "All clients replay one key, in one process"},
}

// WriteTable writes the report for people.
func WriteTable(w io.Writer, r *Report) {
	r.Machine.Write(w)
	fmt.Fprintf(w, `%d rounds of %s and at least %d operations, interleaved
calls a second and ratios to "%s" of the same round: medians over the rounds;
p50 and p99 of an operation, which for a batch is the whole batch;
client µs of processor time that the callers' process took for a call

`, r.Settings.Rounds, r.Settings.Duration, r.Settings.MinOps, r.title(r.Settings.To))
	for _, line := range r.Lines {
		for _, k := range kinds {
			r.writeCells(w, line, k.kind, k.title)
		}
	}
	r.writeCosts(w)
	r.writeNoise(w)
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "skipped: %s: %s\n", s.Way, s.Reason)
	}
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Microsecond)) }

// title is that of a way.
func (r *Report) title(name string) string {
	for _, way := range r.Ways {
		if way.Name == name {
			return way.Title
		}
	}
	return name
}

// writeCells writes one kind of calls over one line, the numbers of clients side
// by side.
func (r *Report) writeCells(w io.Writer, line Line, kind Kind, title string) {
	heading := []string{""}
	var clients []int
	for _, c := range r.Cells {
		if c.Delay == line.Delay && c.Kind == kind && !slices.Contains(clients, c.Clients) {
			clients = append(clients, c.Clients)
			heading = append(heading, fmt.Sprintf("%d× calls/s", c.Clients), "ratio", "p50 ms", "p99 ms", "client µs")
		}
	}
	if len(clients) == 0 {
		return
	}
	fmt.Fprintf(w, "%s, %s (SELECT 1 takes %s ms)\n\n", title, line, figure.Millis(line.RoundTrip))
	t := figure.NewTable(heading...)
	for _, way := range r.Ways {
		row, found := []any{way.Title}, false
		for _, n := range clients {
			if c, ok := r.Cell(way.Name, kind, line.Delay, n); ok {
				row, found = append(row, int64(c.PerSecond), fmt.Sprintf("%.2f", c.Ratio), figure.Millis(c.P50), figure.Millis(c.P99), micros(c.Processor)), true
			} else {
				row = append(row, "", "", "", "", "")
			}
		}
		if found {
			t.Row(row...)
		}
	}
	t.Write(w)
}

func (r *Report) writeCosts(w io.Writer) {
	fmt.Fprintf(w, "What one call costs, one client on loopback\n\n")
	t := figure.NewTable("", "round trips", "WAL bytes", "flushes", "allocations", "allocated bytes", "stored bytes")
	for _, way := range r.Ways {
		for _, k := range kinds {
			c, ok := r.Cost(way.Name, k.kind)
			if !ok {
				continue
			}
			title, stored := way.Title, fmt.Sprintf("%.0f", c.StoredBytes)
			if c.Kind == Replay {
				title, stored = title+", replay", ""
			}
			trips := fmt.Sprintf("%.3g", c.RoundTrips)
			if c.RedisRoundTrips > 0 {
				trips += fmt.Sprintf(" + %.3g", c.RedisRoundTrips)
			}
			t.Row(title, trips, fmt.Sprintf("%.0f", c.WALBytes), fmt.Sprintf("%.2f", c.Flushes),
				fmt.Sprintf("%.0f", c.Allocs), fmt.Sprintf("%.0f", c.AllocBytes), stored)
		}
	}
	t.Write(w)
}

const (
	// imaged is how many page images a call may write before the report says that
	// its WAL bytes are not all its own.
	imaged = 0.05
	// noisy is how many times faster the fastest round of the base may be than its
	// slowest before the report says so.
	noisy = 1.3
)

// writeNoise names the loads under which the machine had more to do in some
// rounds than in others, and the costs that hold what is not the call's. The
// ratios are made within rounds and suffer less.
func (r *Report) writeNoise(w io.Writer) {
	for _, c := range r.Cells {
		if base := r.Ways[0]; c.Way == base.Name && c.Kind == First && c.Fastest > noisy*c.Slowest {
			fmt.Fprintf(w, "noisy: %s made %.0f to %.0f calls a second in different rounds, %s, clients: %d\n",
				base.Title, c.Slowest, c.Fastest, Line{Delay: c.Delay}, c.Clients)
		}
	}
	for _, c := range r.Costs {
		if c.PageImages > imaged {
			fmt.Fprintf(w, "noisy: the WAL bytes of %s, %s, hold %.2f images of pages a call\n", c.Way, c.Kind, c.PageImages)
		}
	}
}

// String says how far away the servers are.
func (l Line) String() string {
	if l.Delay == 0 {
		return "loopback"
	}
	return fmt.Sprintf("%g ms each way", float64(l.Delay)/float64(time.Millisecond))
}
