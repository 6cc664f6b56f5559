package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/server"
)

// SoakOptions say what is kept up, and for how long.
type SoakOptions struct {
	Duration  time.Duration
	Rate      float64       // calls a second
	Clients   int           // that make them
	Replays   float64       // the share of calls that repeat an earlier one
	Retention time.Duration // of results, and again of tombstones
	Sweep     time.Duration // the Sweeper's interval
	Every     time.Duration // between two lines
}

// Soak is a fixed load over time.
type Soak struct {
	Machine report.Machine `json:"machine"`
	Lines   []SoakLine     `json:"lines"`
	Tally   SoakTally      `json:"tally"`
	Verdict SoakVerdict    `json:"verdict"`
}

// SoakLine is what was seen since the line before.
type SoakLine struct {
	At     time.Duration   `json:"at_ns"`
	Sizes  Sizes           `json:"sizes"`
	Live   int64           `json:"live_tuples"`
	Dead   int64           `json:"dead_tuples"`
	Calls  measure.Latency `json:"calls"`
	Errors int64           `json:"errors"`
}

const soakSchema = "soak"

// SoakCommand returns the command `soak`.
func SoakCommand() *cobra.Command {
	o := SoakOptions{Rate: 200, Clients: 16, Replays: 0.3, Retention: 30 * time.Second, Sweep: 5 * time.Second, Every: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Keep up a load with a Sweeper for a long time and see whether anything grows",
		Long: `Run a fixed load of first calls and replays with a Sweeper and a short retention, so
that records expire and are forgotten all the time. In the end every answered call
must have one effect. The exit code is 1 if one has none or two, or if a call failed.`,
		PreRunE: func(*cobra.Command, []string) error {
			if o.Duration < o.Every {
				return fmt.Errorf("--duration: must be at least %s, the time between two lines", o.Every)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&o.Duration, "duration", 10*time.Minute, "how long")
	return command(cmd, nil, func(ctx context.Context, s stand) (finding, error) { return soak(ctx, s, o) })
}

// soak writes its lines as it goes: it may run for hours.
func soak(ctx context.Context, s stand, o SoakOptions) (*Soak, error) {
	pool, err := server.Pool(ctx, s.url, o.Clients+2) // the Sweeper, and the looks
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	load := newSoakLoad(o)
	load.t, err = newField(ctx, pool, dedup.Options{
		Schema: soakSchema, Tracer: load,
		Retention: dedup.Retention{Result: o.Retention, Tombstone: o.Retention},
	})
	if err != nil {
		return nil, err
	}
	sweeper, err := dedup.NewSweeper(load.t.d, &dedup.SweeperOptions{Interval: o.Sweep})
	if err != nil {
		return nil, err
	}

	result := &Soak{Machine: s.machine}
	sweeping, stop := context.WithCancel(ctx)
	var sweeps sync.WaitGroup
	sweeps.Go(func() { _ = sweeper.Run(sweeping) }) // the errors of sweeps go to the tracer
	err = result.watch(ctx, load, o, s.out)
	stop()
	sweeps.Wait()
	if err != nil {
		return nil, err
	}
	if result.Tally, err = load.settle(ctx); err != nil {
		return nil, err
	}
	result.Verdict = judgeSoak(result.Lines, o)
	return result, nil
}

// soakColumns are wide enough for days.
const soakColumns = "  %8v  %10v  %10v  %10v  %10v  %10v  %10v  %8v  %10v  %10v  %7v\n"

// watch keeps up the load, and adds a line at every interval, until the time is over.
func (r *Soak) watch(ctx context.Context, l *soakLoad, o SoakOptions, out io.Writer) error {
	fmt.Fprintf(out, soakColumns, "at", "heap", "prim. key", "due index", "records", "live", "dead", "calls/s", "p50 ms", "p99 ms", "errors")
	call := func(ctx context.Context, _ int) (int, error) { _ = l.call(ctx); return 1, nil } // it is on the account
	failed := int64(0)
	for start := time.Now(); len(r.Lines) == 0 || r.Lines[len(r.Lines)-1].At < o.Duration; {
		calls, err := pace{rate: o.Rate, clients: o.Clients}.beside(ctx, func() error { return wait(ctx, o.Every) }, call)
		if err != nil {
			return err
		}
		line := SoakLine{At: time.Since(start), Calls: calls.Latency(), Errors: l.failed() - failed}
		failed += line.Errors
		if line.Sizes, err = l.t.sizes(ctx); err != nil {
			return err
		}
		err = l.t.pool.QueryRow(ctx, "SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = $1::regclass", l.t.records).
			Scan(&line.Live, &line.Dead)
		if err != nil {
			return err
		}
		r.Lines = append(r.Lines, line)
		fmt.Fprintf(out, soakColumns, line.At.Round(time.Second), megabytes(line.Sizes.Heap), megabytes(line.Sizes.PrimaryKey),
			megabytes(line.Sizes.DueIndex), figure.Thousands(line.Sizes.Records), figure.Thousands(line.Live), figure.Thousands(line.Dead),
			figure.Thousands(int(line.Calls.PerSecond)), figure.Millis(line.Calls.P50), figure.Millis(line.Calls.P99), line.Errors)
	}
	return nil
}

// SoakVerdict compares the last third of a soak with the middle one. The first
// is left out: the table grows until its first records are forgotten.
type SoakVerdict struct {
	// Enough reports whether there are lines enough, and thirds are so long that
	// the table had grown full, and autovacuum had come by, before the middle
	// one began.
	Enough bool `json:"enough"`
	// SizeRatio is the table with its indexes, P99Ratio the p99 of calls: the
	// median of the last third divided by that of the middle one.
	SizeRatio float64 `json:"size_ratio"`
	P99Ratio  float64 `json:"p99_ratio"`
}

const (
	// A table that is vacuumed now and then goes up and down by some tenths.
	leakRatio = 1.25
	// The slowest call of a hundred is at the mercy of the machine.
	driftRatio = 2
	leastLines = 9
	// Autovacuum looks once a minute.
	leastThird = 2 * time.Minute
)

func judgeSoak(lines []SoakLine, o SoakOptions) (v SoakVerdict) {
	n := len(lines)
	life := 2*o.Retention + o.Sweep // of a record
	if n < leastLines || lines[n/3].At-o.Every < max(life, leastThird) {
		return v
	}
	compare := func(figure func(SoakLine) float64) float64 {
		return ratio(measure.MedianOf(lines[2*n/3:], figure), measure.MedianOf(lines[n/3:2*n/3], figure))
	}
	v.Enough = true
	v.SizeRatio = compare(func(l SoakLine) float64 { return float64(l.Sizes.Total) })
	v.P99Ratio = compare(func(l SoakLine) float64 { return float64(l.Calls.P99) })
	return v
}

// write comes after the lines, which have been written already. Growth and drift are
// for a reader to judge.
func (r *Soak) write(w io.Writer) error {
	fmt.Fprintln(w)
	r.Machine.Write(w)
	t, v := r.Tally, r.Verdict
	fmt.Fprintf(w, "\n%d first calls, %d replays, %d errors; %d effects of %d keys; %d results and %d tombstones swept\n",
		t.Firsts, t.Replays, t.Errors, t.Effects, t.Keys, t.Expired, t.Forgotten)
	for _, text := range t.Some {
		fmt.Fprintf(w, "  %s\n", text)
	}
	size, p99 := "the table has stopped growing", "no drift"
	if v.SizeRatio > leakRatio {
		size = "THE TABLE GROWS"
	}
	if v.P99Ratio > driftRatio {
		p99 = "CALLS GET SLOWER"
	}
	if v.Enough {
		fmt.Fprintf(w, "last third against the middle one: size %s, %s; p99 %s, %s\n", times(v.SizeRatio), size, times(v.P99Ratio), p99)
	} else {
		fmt.Fprintf(w, "too short to tell whether anything grows: it takes %d lines, and a third of the time must be at least %s and longer than a record's life\n", leastLines, leastThird)
	}
	return r.verdict()
}

// verdict is an error where calls failed or effects are wrong.
func (r *Soak) verdict() error {
	t := r.Tally
	var errs []error
	if doubled := t.Effects - t.Keys; doubled > 0 {
		errs = append(errs, fmt.Errorf("%d effects were doubled", doubled))
	}
	if lost := t.Firsts - t.Keys; lost > 0 {
		errs = append(errs, fmt.Errorf("%d calls were answered and have no effect", lost))
	}
	if t.Errors > 0 {
		errs = append(errs, fmt.Errorf("%d calls or sweeps failed, the first with: %s", t.Errors, t.Some[0]))
	}
	return errors.Join(errs...)
}
