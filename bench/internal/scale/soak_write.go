package scale

import (
	"fmt"
	"io"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

// soakColumns are wide enough for days: lines are written as they come.
const soakColumns = "  %8s  %10s  %10s  %10s  %10s  %10s  %10s  %8s  %10s  %10s  %7s\n"

func writeSoakHeading(w io.Writer) {
	fmt.Fprintf(w, soakColumns, "at", "heap", "prim. key", "due index", "records", "live", "dead", "calls/s", "p50", "p99", "errors")
}

func (l SoakLine) writeLine(w io.Writer) {
	fmt.Fprintf(w, soakColumns, seconds(l.At), megabytes(l.Sizes.Heap), megabytes(l.Sizes.PrimaryKey), megabytes(l.Sizes.DueIndex),
		figure.Thousands(l.Sizes.Records), figure.Thousands(l.Live), figure.Thousands(l.Dead), figure.Thousands(int64(l.Calls.PerSecond)),
		millis(l.Calls.P50), millis(l.Calls.P99), figure.Thousands(int64(l.Errors)))
}

// write comes after the lines, which have been written already.
func (r *Soak) write(w io.Writer) {
	fmt.Fprintln(w)
	r.Machine.Write(w)
	t, v := r.Tally, r.Verdict
	fmt.Fprintf(w, "\n%s first calls, %s replays, %s errors; %s effects of %s keys; %s results and %s tombstones swept\n",
		figure.Thousands(t.Firsts), figure.Thousands(t.Replays), figure.Thousands(t.Errors), figure.Thousands(t.Effects), figure.Thousands(t.Keys),
		figure.Thousands(t.Expired), figure.Thousands(t.Forgotten))
	for _, text := range t.Some {
		fmt.Fprintf(w, "  %s\n", text)
	}
	if !v.Enough {
		fmt.Fprintf(w, "too short to tell whether anything grows: it takes %d lines, and a third of the time must be at least %s and longer than a record's life\n", leastLines, leastThird)
		return
	}
	size, p99 := "the table has stopped growing", "no drift"
	if v.Leaks {
		size = "THE TABLE GROWS"
	}
	if v.Drifts {
		p99 = "CALLS GET SLOWER"
	}
	fmt.Fprintf(w, "last third against the middle one: size %s, %s; p99 %s, %s\n", times(v.SizeRatio), size, times(v.P99Ratio), p99)
}
