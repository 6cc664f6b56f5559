package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/table"
)

// titles are the headings of the kinds.
var titles = map[Kind]string{
	First:  "First calls",
	Replay: "Replays of many keys",
	OneKey: "All clients replay one key, in one process",
}

// WriteTable writes the report for people.
func WriteTable(w io.Writer, r *Report) {
	writeHead(w, r)
	for _, line := range r.Lines {
		for _, kind := range Kinds() {
			writeCells(w, r, line, kind)
		}
	}
	writeCosts(w, r)
	writeNoise(w, r)
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "skipped: %s: %s\n", s.Way, s.Reason)
	}
}

func writeHead(w io.Writer, r *Report) {
	r.Machine.Write(w)
	fmt.Fprintf(w, "%d rounds of %s and at least %d operations, interleaved\n", r.Settings.Rounds, r.Settings.Duration, r.Settings.MinOps)
	fmt.Fprintln(w, "calls a second and ratios to the bare transaction of the same round: medians over the rounds;")
	fmt.Fprint(w, "p50 and p99 of an operation, which for a batch is the whole batch\n\n")
}

// writeCells writes one kind of calls over one line, the numbers of clients side
// by side.
func writeCells(w io.Writer, r *Report, line Line, kind Kind) {
	clients := clientsOf(r, line.Delay, kind)
	if len(clients) == 0 {
		return
	}
	fmt.Fprintf(w, "%s, %s\n\n", titles[kind], lineTitle(line))
	heading := []string{""}
	for _, n := range clients {
		heading = append(heading, fmt.Sprintf("%d× calls/s", n), "ratio", "p50 ms", "p99 ms")
	}
	t := table.New(heading...)
	for _, way := range r.Ways {
		row, found := []string{way.Title}, false
		for _, n := range clients {
			c, ok := r.Cell(way.Name, kind, line.Delay, n)
			if !ok {
				row = append(row, "", "", "", "")
				continue
			}
			found = true
			row = append(row, figure.Thousands(int64(c.PerSecond)), fmt.Sprintf("%.2f", c.Ratio), figure.Millis(c.P50), figure.Millis(c.P99))
		}
		if found {
			t.Row(row...)
		}
	}
	t.Write(w)
}

// imaged is how many page images a call may write before the report says that its
// WAL bytes are not all its own.
const imaged = 0.05

// noisy is how many times faster the fastest round of the base may be than its
// slowest before the report says so.
const noisy = 1.3

// writeNoise names the loads under which the machine had more to do in some
// rounds than in others, and the costs that hold what is not the call's. The
// ratios are made within rounds and suffer less.
func writeNoise(w io.Writer, r *Report) {
	if len(r.Ways) == 0 {
		return
	}
	var noise []string
	for _, c := range r.Cells {
		if c.Way == r.Ways[0].Name && c.Kind == First && c.Fastest > noisy*c.Slowest {
			noise = append(noise, fmt.Sprintf("noisy: %s made %.0f to %.0f calls a second in different rounds, %s ms each way, clients: %d\n",
				r.Ways[0].Title, c.Slowest, c.Fastest, figure.Millis(c.Delay), c.Clients))
		}
	}
	for _, c := range r.Costs {
		if c.PageImages > imaged {
			noise = append(noise, fmt.Sprintf("noisy: the WAL bytes of %s, %s, hold %.2f images of pages a call\n", c.Way, c.Kind, c.PageImages))
		}
	}
	fmt.Fprint(w, strings.Join(noise, ""))
}

func writeCosts(w io.Writer, r *Report) {
	fmt.Fprintf(w, "What one call costs, one client on loopback\n\n")
	t := table.New("", "round trips", "WAL bytes", "flushes", "allocations", "allocated bytes", "stored bytes")
	for _, way := range r.Ways {
		for _, kind := range Kinds() {
			c, ok := r.Cost(way.Name, kind)
			if !ok {
				continue
			}
			title, stored := way.Title, fmt.Sprintf("%.0f", c.StoredBytes)
			if kind == Replay {
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

// lineTitle says how far away the servers are, and how far they really are.
func lineTitle(line Line) string {
	measured := fmt.Sprintf("(SELECT 1 takes %s ms)", figure.Millis(line.RoundTrip))
	if line.Delay == 0 {
		return "loopback " + measured
	}
	return fmt.Sprintf("%s ms each way %s", figure.Millis(line.Delay), measured)
}

func clientsOf(r *Report, delay time.Duration, kind Kind) []int {
	var clients []int
	seen := map[int]bool{}
	for _, c := range r.Cells {
		if c.Delay == delay && c.Kind == kind && !seen[c.Clients] {
			seen[c.Clients] = true
			clients = append(clients, c.Clients)
		}
	}
	return clients
}
