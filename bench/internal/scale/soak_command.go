package scale

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
)

// SoakCommand returns the command `soak`.
func SoakCommand() *cobra.Command {
	o := SoakOptions{}
	var cmd *cobra.Command
	m := measurement{
		use:   "soak",
		short: "Keep up a load with a Sweeper for a long time and see whether anything grows",
		long: `Run a fixed load of first calls and replays with a Sweeper and a short retention, so
that records expire and are forgotten all the time. In the end every answered call
must have one effect. The exit code is 1 if one has none or two, or if a call failed.`,
		check:   func() error { return o.check() },
		measure: func(ctx context.Context, s stand) (finding, error) { return soak(ctx, s, o, cmd.OutOrStdout()) },
	}
	cmd = m.command()
	set := cmd.Flags()
	set.DurationVar(&o.Duration, "duration", 10*time.Minute, "how long")
	set.Float64Var(&o.Rate, "rate", 200, "calls a second")
	set.IntVar(&o.Clients, "clients", 16, "callers that make them")
	set.Float64Var(&o.Replays, "replays", 0.3, "the share of calls that repeat an earlier one")
	set.DurationVar(&o.Retention, "retention", 30*time.Second, "how long results are kept, and then tombstones")
	set.DurationVar(&o.Sweep, "sweep", 5*time.Second, "the Sweeper's interval")
	set.DurationVar(&o.Every, "every", 10*time.Second, "the time between two lines")
	return cmd
}

func (o *SoakOptions) check() error {
	switch {
	case o.Rate <= 0 || o.Clients < 1:
		return errors.New("--rate, --clients: must be above 0")
	case o.Replays < 0 || o.Replays > 1:
		return errors.New("--replays: must be between 0 and 1")
	case o.Retention < time.Millisecond || o.Sweep < time.Millisecond || o.Every < time.Millisecond:
		return errors.New("--retention, --sweep, --every: must be at least 1ms")
	case o.Duration < o.Every:
		return errors.New("--duration: must be at least --every")
	}
	return nil
}
