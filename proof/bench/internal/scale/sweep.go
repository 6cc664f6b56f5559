package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// SweepOptions are the options of the measurement.
type SweepOptions struct {
	Records int           // due records
	Rest    float64       // dedup.SweepOptions.Rest; 0 is its default
	Rate    float64       // calls a second of the load
	Clients int           // that make them
	Quiet   time.Duration // the time of the load without a sweep, before it and again after it
}

// due is the effect of a sweep on a record.
type due string

const (
	forgets due = "forgotten"  // expired tombstones are deleted
	expires due = "tombstones" // expired results are dropped
)

// SweepCommand returns the command `sweep`.
func SweepCommand() *cobra.Command {
	o := SweepOptions{Rate: 500, Clients: 4, Quiet: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Measure how fast records are swept and what calls notice of it",
		Long: `Fill tables with records that are due and sweep them: alone, and under a steady
load of calls, which is measured before, during and after the sweep.`,
	}
	cmd.Flags().IntVar(&o.Records, "records", 1_000_000, "records to sweep")
	cmd.Flags().Float64Var(&o.Rest, "rest", 0,
		"pause between two transactions of the sweep, as a multiple of the one before; 0 is the library's default, negative is none")
	counts := func() []int { return []int{o.Records} }
	return command(cmd, counts, func(ctx context.Context, b *bed.Bed) error { return sweep(ctx, b, o) })
}

func sweep(ctx context.Context, b *bed.Bed, o SweepOptions) error {
	fmt.Fprint(b.Out, "\nRecords a second, and what calls notice of it.\n\n")
	t := measure.NewTable(b.Out, "records that become", "records", "alone/s, ≥ 50,000", "under load/s, ≥ 50,000",
		"calls during", "p50 quiet", "p50 during", "p99 before", "p99 after", "p99 quiet", "p99 during", "p99 ratio, ≤ 2")
	for _, due := range []due{forgets, expires} {
		alone, _, err := sweepOf(ctx, b, o, due, false)
		if err != nil {
			return fmt.Errorf("sweeping %s: %w", due, err)
		}
		loaded, calls, err := sweepOf(ctx, b, o, due, true)
		if err != nil {
			return fmt.Errorf("sweeping %s under load: %w", due, err)
		}
		// Before and after together: a table is at its fastest right after it was filled and
		// vacuumed.
		before, during, after := calls[0].Latency(), calls[1].Latency(), calls[2].Latency()
		quiet := measure.Rounds{calls[0], calls[2]}.Latency()
		t.Row(due, o.Records, int(alone), int(loaded), during.Calls, quiet.P50, during.P50,
			before.P99, after.P99, quiet.P99, during.P99, float64(during.P99)/float64(quiet.P99))
	}
	t.Flush()
	return nil
}

// sweepOf measures a sweep of a new table in records a second. Under a load it also returns the
// load's calls before, beside and after the sweep.
func sweepOf(ctx context.Context, b *bed.Bed, o SweepOptions, due due, load bool) (perSecond float64, found [3]measure.Sample, err error) {
	f := filling{keys: OrderedKeys, records: o.Records, from: 3 * day, to: 2 * day, result: day, tombstone: 30 * day}
	if due == forgets {
		f.from, f.to, f.swept = 33*day, 32*day, true
	}
	site, err := filled(ctx, b, f)
	if err != nil {
		return 0, found, err
	}
	defer func() { err = errors.Join(err, site.Drop(ctx)) }()
	sweeping := func() (err error) { perSecond, err = sweepAll(ctx, site, o, due); return err }
	if !load {
		err = sweeping()
		return perSecond, found, err
	}
	err = site.Session(ctx, site.Env(o.Clients), func(session *way.Session) (err error) {
		call := calls(session, OrderedKeys)
		if _, err := (measure.Load{Clients: o.Clients, MinOps: o.Clients * warmCalls}).Run(ctx, call); err != nil {
			return err
		}
		quiet := func() error { return measure.Wait(ctx, o.Quiet) }
		for i, work := range []func() error{quiet, sweeping, quiet} {
			if found[i], err = (measure.Load{Rate: o.Rate, Clients: o.Clients}).Beside(ctx, work, call); err != nil {
				return err
			}
		}
		return nil
	})
	return perSecond, found, err
}

// sweepAll sweeps once and returns the records a second. All due records must be gone.
func sweepAll(ctx context.Context, site *bed.Site, o SweepOptions, due due) (float64, error) {
	d, err := dedup.New(site.Pool, nil)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	swept, err := d.Sweep(ctx, &dedup.SweepOptions{Rest: o.Rest})
	elapsed := time.Since(start)
	if err != nil {
		return 0, err
	}
	want := dedup.SweepResult{Batches: swept.Batches, Forgotten: int64(o.Records)}
	if due == expires {
		want.Forgotten, want.Expired = 0, want.Forgotten
	}
	if swept != want {
		return 0, fmt.Errorf("the sweep took %+v, and not %+v", swept, want)
	}
	return float64(o.Records) / elapsed.Seconds(), nil
}
