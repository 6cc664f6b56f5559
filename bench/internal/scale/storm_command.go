package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/table"
)

// StormCommand returns the command `storm`.
func StormCommand() *cobra.Command {
	o := StormOptions{}
	m := measurement{
		use:   "storm",
		short: "Measure what other calls notice of many twins of one slow effect",
		long: `Call twins of one slow effect at once on a small pool, again and again, while calls
of other identities run on the same pool at a steady rate: on one Deduper, where
twins wait in memory, and on two with a pool each, where they meet in the database.
One effect and equal answers are checked for every storm.`,
		check:   func() error { return o.check() },
		measure: func(ctx context.Context, s stand) (finding, error) { return storm(ctx, s, o) },
	}
	cmd := m.command()
	set := cmd.Flags()
	set.IntVar(&o.Twins, "twins", 200, "calls of one identity in a storm")
	set.IntVar(&o.Conns, "conns", 4, "connections of each pool")
	set.DurationVar(&o.Effect, "effect", 700*time.Millisecond, "how long the effect takes")
	set.IntVar(&o.Storms, "storms", 20, "storms, one after the other")
	set.Float64Var(&o.Rate, "rate", 100, "other calls a second on each pool")
	set.DurationVar(&o.Quiet, "quiet", 15*time.Second, "how long the other calls are measured without a storm")
	return cmd
}

func (o *StormOptions) check() error {
	switch {
	case o.Twins < 2:
		return errors.New("--twins: must be at least 2")
	case o.Conns < 2:
		return errors.New("--conns: must be at least 2: one of them runs the slow effect")
	case o.Storms < 1 || o.Rate <= 0 || o.Quiet <= 0 || o.Effect <= 0:
		return errors.New("--storms, --rate, --quiet, --effect: must be above 0")
	}
	return nil
}

func (r *Storm) write(w io.Writer) {
	r.Machine.Write(w)
	fmt.Fprintf(w, "\nStorms of %d twins of an effect of %s, on pools of %d connections; and the other calls on these pools.\n\n", r.Twins, r.Effect, r.Conns)
	t := table.New("dedupers", "storms", "effects", "equal answers", "slowest twin", "others' p50 quiet", "p50 in storms", "p99 quiet", "p99 in storms", "others")
	for _, row := range r.Rows {
		t.Row(fmt.Sprint(row.Dedupers), fmt.Sprint(row.Storms), fmt.Sprint(row.Effects), figure.Thousands(int64(row.Answers)), millis(row.Slowest),
			millis(row.Quiet.P50), millis(row.Stormy.P50), millis(row.Quiet.P99), millis(row.Stormy.P99), figure.Thousands(int64(row.Stormy.Calls)))
	}
	t.Write(w)
	writeGoals(w, r.Goals)
}
