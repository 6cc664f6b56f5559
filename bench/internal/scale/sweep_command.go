package scale

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
)

// SweepCommand returns the command `sweep`.
func SweepCommand() *cobra.Command {
	o := SweepOptions{}
	m := measurement{
		use:   "sweep",
		short: "Measure how fast records are swept and what calls notice of it",
		long: `Fill tables with records that are due and sweep them: alone, and under a steady
load of calls, which is measured before, during and after the sweep. Then let sweeps
meet rows that are locked, sweepers that are frozen, an Archive hook that hangs and a
second sweeper, beside calls of other tenants that do not wait for twins. Then put generations of records through one table: filled, swept to
tombstones, swept away; and look at what room is left behind. For that part
autovacuum looks every 10 s (--naptime) in place of every minute, since a generation here lasts
for half a minute and not for hours.`,
		check:   func() error { return o.check() },
		measure: func(ctx context.Context, s stand) (finding, error) { return sweep(ctx, s, o) },
	}
	cmd := m.command()
	set := cmd.Flags()
	set.IntVar(&o.Records, "records", 1_000_000, "records to sweep")
	set.IntVar(&o.Batch, "batch", 0, "records in a transaction of the sweep; 0 is the library's default")
	set.Float64Var(&o.Rate, "rate", 500, "calls a second of the load")
	set.Float64Var(&o.Rest, "rest", 0, "pause between two transactions of the sweep, as a multiple of the one before; 0 is the library's default, negative is none")
	set.IntVar(&o.Clients, "clients", 4, "callers that make them")
	set.DurationVar(&o.Quiet, "quiet", 10*time.Second, "how long the load is measured before the sweep, and again after it")
	set.IntVar(&o.Cases.Records, "case-records", 300_000, "records that may be forgotten in each case of a sweep that meets something")
	set.DurationVar(&o.Cases.Time, "case-time", 10*time.Second, "how long each of these cases lasts, and the calm beside it; 0 for none")
	set.IntVar(&o.Cases.Rounds, "case-rounds", 5, "rounds in which a case and calm take turns")
	set.IntVar(&o.Generations.Count, "generations", 10, "generations of records; 0 for none")
	set.IntVar(&o.Generations.Records, "generation-records", 100_000, "records of a generation, and of those that stay")
	set.DurationVar(&o.Generations.Hold, "hold", 15*time.Second, "how long a generation's records are tombstones")
	set.DurationVar(&o.Generations.Naptime, "naptime", 10*time.Second, "how often autovacuum looks while it is waited for")
	set.StringVar((*string)(&o.Generations.Vacuum), "vacuum", string(VacuumAuto), "after a generation: `auto` waits for autovacuum, each runs VACUUM, none does nothing")
	return cmd
}

func (o *SweepOptions) check() error {
	switch {
	case o.Records < 1:
		return errors.New("--records: must be at least 1")
	case o.Batch < 0:
		return errors.New("--batch: must not be negative")
	case o.Rate <= 0 || o.Clients < 1:
		return errors.New("--rate, --clients: must be above 0")
	case o.Quiet <= 0:
		return errors.New("--quiet: must be above 0")
	}
	if o.Cases.Records < caseTenants || o.Cases.Time < 0 || o.Cases.Rounds < 1 {
		return errors.New("--case-records, --case-time, --case-rounds: must be above 0")
	}
	g := o.Generations
	if g.Count < 0 || g.Count > 0 && (g.Records < 1 || g.Hold <= 0) {
		return errors.New("--generations, --generation-records, --hold: must be above 0")
	}
	if g.Naptime < time.Second {
		return errors.New("--naptime: must be at least 1s")
	}
	switch g.Vacuum {
	case VacuumAuto, VacuumEach, VacuumNone:
		return nil
	default:
		return errors.New("--vacuum: choose auto, each or none")
	}
}
