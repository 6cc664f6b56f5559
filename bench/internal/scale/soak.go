package scale

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/measure"
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
	return command(cmd, nil, func(ctx context.Context, s stand) error {
		_, tally, err := soak(ctx, s, o)
		if err != nil {
			return err
		}
		return tally.verdict()
	})
}

func soak(ctx context.Context, s stand, o SoakOptions) (lines []soakLine, tally soakTally, err error) {
	pool, err := server.Pool(ctx, s.url, o.Clients+2) // the Sweeper, and the looks
	if err != nil {
		return nil, tally, err
	}
	defer pool.Close()
	load := newSoakLoad(o)
	load.t, err = newField(ctx, pool, dedup.Options{
		Schema: soakSchema, Tracer: load,
		Retention: dedup.Retention{Result: o.Retention, Tombstone: o.Retention},
	})
	if err != nil {
		return nil, tally, err
	}
	sweeper, err := dedup.NewSweeper(load.t.d, &dedup.SweeperOptions{Interval: o.Sweep})
	if err != nil {
		return nil, tally, err
	}
	sweeping, stop := context.WithCancel(ctx)
	var sweeps sync.WaitGroup
	sweeps.Go(func() { _ = sweeper.Run(sweeping) }) // the errors of sweeps go to the tracer
	lines, err = load.watch(ctx, o, s.out)
	stop()
	sweeps.Wait()
	if err != nil {
		return nil, tally, err
	}
	if tally, err = load.settle(ctx); err == nil {
		tally.write(s.out)
		judgeSoak(lines, o).write(s.out)
	}
	return lines, tally, err
}

const soakSchema = "soak"

// soakLine is what was seen since the line before.
type soakLine struct {
	at         time.Duration
	sizes      Sizes
	live, dead int64 // tuples
	calls      measure.Latency
}

// soakColumns are wide enough for days: lines are written as they come, for hours.
const soakColumns = "  %8v  %10v  %10v  %10v  %10v  %10v  %10v  %8v  %10v  %10v  %7v\n"

// watch keeps up the load, and adds a line at every interval of the duration.
func (l *soakLoad) watch(ctx context.Context, o SoakOptions, out io.Writer) (lines []soakLine, err error) {
	fmt.Fprintf(out, "\n"+soakColumns, "at", "heap", "prim. key", "due index", "records", "live", "dead", "calls/s", "p50 ms", "p99 ms", "errors")
	call := func(ctx context.Context, _ int) (int, error) { _ = l.call(ctx); return 1, nil } // it is on the account
	failed := int64(0)
	for start := time.Now(); len(lines) < int(o.Duration/o.Every); {
		calls, err := pace{rate: o.Rate, clients: o.Clients}.beside(ctx, func() error { return wait(ctx, o.Every) }, call)
		if err != nil {
			return nil, err
		}
		line := soakLine{at: time.Since(start), calls: calls.Latency()}
		if line.sizes, err = l.t.sizes(ctx); err != nil {
			return nil, err
		}
		err = l.t.pool.QueryRow(ctx, "SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = $1::regclass", l.t.records).
			Scan(&line.live, &line.dead)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
		before := failed
		failed = l.failed()
		fmt.Fprintf(out, soakColumns, line.at.Round(time.Second), megabytes(line.sizes.Heap), megabytes(line.sizes.PrimaryKey),
			megabytes(line.sizes.DueIndex), figure.Thousands(line.sizes.Records), figure.Thousands(line.live), figure.Thousands(line.dead),
			figure.Thousands(int(line.calls.PerSecond)), figure.Millis(line.calls.P50), figure.Millis(line.calls.P99), failed-before)
	}
	return lines, nil
}

// soakVerdict compares the last third of a soak with the middle one. The first
// is left out: the table grows until its first records are forgotten.
type soakVerdict struct {
	// enough says that there are lines enough, and thirds are so long that the table
	// had grown full, and autovacuum had come by, before the middle one began.
	enough bool
	// size is the table with its indexes, p99 that of calls: the median of the last
	// third divided by that of the middle one.
	size, p99 float64
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

func judgeSoak(lines []soakLine, o SoakOptions) (v soakVerdict) {
	n := len(lines)
	life := 2*o.Retention + o.Sweep // of a record
	if n < leastLines || lines[n/3].at-o.Every < max(life, leastThird) {
		return v
	}
	compare := func(figure func(soakLine) float64) float64 {
		return ratio(measure.MedianOf(lines[2*n/3:], figure), measure.MedianOf(lines[n/3:2*n/3], figure))
	}
	return soakVerdict{
		enough: true,
		size:   compare(func(l soakLine) float64 { return float64(l.sizes.Total) }),
		p99:    compare(func(l soakLine) float64 { return float64(l.calls.P99) }),
	}
}

// write leaves growth and drift to the reader's judgement.
func (v soakVerdict) write(w io.Writer) {
	if !v.enough {
		fmt.Fprintf(w, "too short to tell whether anything grows: it takes %d lines, and a third of the time must be at least %s and longer than a record's life\n", leastLines, leastThird)
		return
	}
	size, p99 := "the table has stopped growing", "no drift"
	if v.size > leakRatio {
		size = "THE TABLE GROWS"
	}
	if v.p99 > driftRatio {
		p99 = "CALLS GET SLOWER"
	}
	fmt.Fprintf(w, "last third against the middle one: size %s, %s; p99 %s, %s\n", times(v.size), size, times(v.p99), p99)
}
