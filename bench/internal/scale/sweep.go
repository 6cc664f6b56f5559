package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/server"
)

// SweepOptions say how the sweep is measured.
type SweepOptions struct {
	Records int           // that are due
	Rest    float64       // dedup.SweepOptions.Rest; 0 is its default
	Rate    float64       // calls a second of the load
	Clients int           // that make them
	Quiet   time.Duration // how long the load runs without a sweep, before it and again after it

	Generations       int           // of records that are put through one table; 0 for none
	GenerationRecords int           // of a generation, and of those that stay throughout
	Hold              time.Duration // how long those of a generation are tombstones
	Naptime           time.Duration // how often autovacuum looks meanwhile
}

// sweepRow is how fast one kind of records is swept, and what calls notice of it.
type sweepRow struct {
	alone, loaded float64 // records a second, without and with a load of calls
	// The load's calls on the full table, during the sweep and on what it left. quiet is
	// before and after together: a table that has just been filled and vacuumed is
	// quicker than it will ever be.
	before, swept, after, quiet measure.Latency
}

// Due is what a sweep makes of a record.
type Due string

const (
	Forgets Due = "forgotten"  // tombstones whose time is over are deleted
	Expires Due = "tombstones" // results whose time is over are dropped
)

const (
	sweepSchema = "swept"
	day         = 24 * time.Hour
)

// SweepCommand returns the command `sweep`.
func SweepCommand() *cobra.Command {
	o := SweepOptions{
		Rate: 500, Clients: 4, Quiet: 10 * time.Second,
		Generations: 10, GenerationRecords: 100_000, Hold: 15 * time.Second, Naptime: 10 * time.Second,
	}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Measure how fast records are swept and what calls notice of it",
		Long: `Fill tables with records that are due and sweep them: alone, and under a steady
load of calls, which is measured before, during and after the sweep. Then put
generations of records through one table: filled, swept to tombstones, swept away;
and look at what room is left behind. For that part autovacuum looks every 10 s in
place of every minute, since a generation here lasts for half a minute and not for
hours.`,
		PreRunE: func(*cobra.Command, []string) error {
			if o.Records < 1 {
				return errors.New("--records must be at least 1")
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&o.Records, "records", 1_000_000, "records to sweep")
	cmd.Flags().IntVar(&o.Generations, "generations", o.Generations, "generations of records; 0 for none")
	cmd.Flags().Float64Var(&o.Rest, "rest", 0, "pause between two transactions of the sweep, as a multiple of the one before; 0 is the library's default, negative is none")
	return command(cmd, nil, func(ctx context.Context, s stand) error { return sweep(ctx, s, o) })
}

func sweep(ctx context.Context, s stand, o SweepOptions) error {
	pool, err := server.Pool(ctx, s.url, o.Clients+2)
	if err != nil {
		return err
	}
	defer pool.Close()
	t := figure.NewTable("records that become", "records", "alone/s, ≥ 50,000", "under load/s, ≥ 50,000", "calls during", "p50 quiet", "p50 during",
		"p99 before", "p99 after", "p99 quiet", "p99 during", "p99 ratio, ≤ 2x")
	for _, due := range []Due{Forgets, Expires} {
		row, err := s.sweepOf(ctx, pool, o, due)
		if err != nil {
			return fmt.Errorf("sweeping %s: %w", due, err)
		}
		t.Row(due, o.Records, int64(row.alone), int64(row.loaded), row.swept.Calls, row.quiet.P50, row.swept.P50,
			row.before.P99, row.after.P99, row.quiet.P99, row.swept.P99, times(ratio(row.swept.P99, row.quiet.P99)))
	}
	fmt.Fprint(s.out, "\nRecords a second, and what calls notice of it.\n\n")
	t.Write(s.out)
	if o.Generations == 0 {
		return nil
	}
	all, err := s.generations(ctx, pool, o)
	if err != nil {
		return fmt.Errorf("generations: %w", err)
	}
	writeGenerations(s.out, all)
	return nil
}

// sweepOf measures the sweep alone and under load, each on a new table.
func (s stand) sweepOf(ctx context.Context, pool *pgxpool.Pool, o SweepOptions, due Due) (row sweepRow, err error) {
	t, err := dueTable(ctx, pool, o, due)
	if err != nil {
		return row, err
	}
	s.say("%s records that become %s: sweeping alone", figure.Thousands(o.Records), due)
	if row.alone, err = t.sweepAll(ctx, o, due); err != nil {
		return row, err
	}

	if t, err = dueTable(ctx, pool, o, due); err != nil {
		return row, err
	}
	call := t.first(OrderedKeys)
	if err := drive(ctx, o.Clients, o.Clients*warmCalls, call); err != nil {
		return row, err
	}
	s.say("%s records that become %s: load of %g calls a second, before, during and after a sweep", figure.Thousands(o.Records), due, o.Rate)
	load := pace{rate: o.Rate, clients: o.Clients}
	quiet := func() error { return wait(ctx, o.Quiet) }
	before, err := load.beside(ctx, quiet, call)
	if err != nil {
		return row, err
	}
	during, err := load.beside(ctx, func() (err error) { row.loaded, err = t.sweepAll(ctx, o, due); return err }, call)
	if err != nil {
		return row, err
	}
	after, err := load.beside(ctx, quiet, call)
	row.before, row.swept, row.after, row.quiet = before.Latency(), during.Latency(), after.Latency(), before.And(after).Latency()
	return row, err
}

// dueTable makes a table of records that are all due.
func dueTable(ctx context.Context, pool *pgxpool.Pool, o SweepOptions, due Due) (*tool, error) {
	t, err := newField(ctx, pool, dedup.Options{Schema: sweepSchema, Retention: dedup.TaskRetention()})
	if err != nil {
		return nil, err
	}
	f := filling{keys: OrderedKeys, records: o.Records, retention: dedup.Retention{Result: day, Tombstone: 30 * day}}
	switch due {
	case Forgets:
		f.from, f.to, f.swept = 33*day, 32*day, true
	case Expires:
		f.from, f.to = 3*day, 2*day
	}
	return t, f.into(ctx, t)
}

// sweepAll sweeps once and returns the records a second. All that were due must
// be gone.
func (t *tool) sweepAll(ctx context.Context, o SweepOptions, due Due) (float64, error) {
	start := time.Now()
	swept, err := t.d.Sweep(ctx, &dedup.SweepOptions{Rest: o.Rest})
	elapsed := time.Since(start)
	if err != nil {
		return 0, err
	}
	want := dedup.SweepResult{Batches: swept.Batches, Forgotten: int64(o.Records)}
	if due == Expires {
		want.Forgotten, want.Expired = 0, want.Forgotten
	}
	if swept != want {
		return 0, fmt.Errorf("the sweep took %+v, and not %+v", swept, want)
	}
	return float64(o.Records) / elapsed.Seconds(), nil
}
