// Package run is the command that measures all ways in one run: one server, the
// ways interleaved round by round, each compared with the bare transaction of the
// same round.
package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// options are the options of a measurement.
type options struct {
	rounds      int
	duration    time.Duration // of a cell, in each round
	delays      []time.Duration
	clients     []int
	ways        []string // none means all
	kinds       []string // of calls; none means all
	to          string   // the base of the ratios
	json        string   // a file, or nothing
	check       bool
	redisFolder string

	// warmOps is the number of operations of each client and cell before the first round.
	// Connections prepare their statements, and caches fill.
	warmOps int
	minOps  int // of a cell, in each round
	seeds   int // earlier calls to replay
	counts  counts
}

// Command returns the command run.
func Command() *cobra.Command {
	o := options{warmOps: 10, minOps: 10, seeds: 500, counts: counts{trips: 11, calls: 200, warm: 300}}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure what running once costs, on a real Postgres",
		Long: `Measures first calls and replays of the library, of the transaction without it, and
of what else is used, on one private Postgres with production's settings. The ways
take turns, round by round, and each is compared with the bare transaction of the
same round, or with the way that --to names.

With --check a short form is run and compared with bounds. If one is broken all is
measured once more, and fails if it is broken again. The other flags that say what
is measured are not taken then.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.check {
				for _, name := range []string{"rounds", "duration", "delays", "clients", "ways", "kinds", "to"} {
					if cmd.Flags().Changed(name) {
						return fmt.Errorf("--check is a fixed run, for which the bounds were set: leave --%s out", name)
					}
				}
				o.short()
			}
			if err := o.validate(); err != nil {
				return err
			}
			return bed.Run(cmd, bed.Options{RedisFolder: o.redisFolder}, func(ctx context.Context, b *bed.Bed) error {
				if o.check {
					return checkAll(ctx, b, o)
				}
				_, err := measureAll(ctx, b, o)
				return err
			})
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *options) flags(flags *pflag.FlagSet) {
	flags.IntVar(&o.rounds, "rounds", 5, "rounds; medians are taken over them")
	flags.DurationVar(&o.duration, "duration", 200*time.Millisecond, "how long a way is loaded in one round")
	flags.DurationSliceVar(&o.delays, "delays", []time.Duration{0, near},
		"delays to the servers, each way; 0 is the loopback without a proxy")
	flags.IntSliceVar(&o.clients, "clients", []int{1, 16}, "numbers of clients that call at the same time")
	flags.StringSliceVar(&o.ways, "ways", nil, "ways to measure; all where none is named")
	flags.StringSliceVar(&o.kinds, "kinds", nil, "kinds of calls to measure: first, replay, one-key; all where none is named")
	flags.StringVar(&o.to, "to", way.Base,
		"`way` that the ratios are to, its calls of the same kind; where it has none, first calls of the first way")
	flags.StringVar(&o.json, "json", "", "write everything that was measured to this file")
	flags.StringVar(&o.redisFolder, "redis", ".cache/redis", "folder into which Redis was unpacked, where it is not installed")
	flags.BoolVar(&o.check, "check", false, "a short run that is compared with the bounds; exit code 1 if one is broken")
}

func (o *options) validate() error {
	switch {
	case o.rounds < 1 || o.duration < 0:
		return errors.New("--rounds must be at least 1, and --duration not negative")
	case len(o.delays) == 0 || slices.Min(o.delays) < 0:
		return errors.New("--delays must name at least one, and none that is negative")
	case len(o.clients) == 0 || slices.Min(o.clients) < 1:
		return errors.New("--clients must name at least one, and none below 1")
	}
	for _, kind := range o.kinds {
		if !slices.Contains(kinds, Kind(kind)) {
			return fmt.Errorf("--kinds: there is no kind %q", kind)
		}
	}
	ways, err := way.Choose(o.ways)
	if err != nil {
		return fmt.Errorf("--ways: %w", err)
	}
	if !slices.ContainsFunc(ways, func(w way.Way) bool { return w.Name == o.to }) {
		return fmt.Errorf("--to: %q is none of the ways that are measured", o.to)
	}
	return nil
}

// measureAll measures and writes the report.
func measureAll(ctx context.Context, b *bed.Bed, o options) (*Report, error) {
	r, err := measured(ctx, b, o)
	if err != nil {
		return nil, err
	}
	r.Write(b.Out)
	if o.json != "" {
		err = measure.WriteJSON(o.json, r)
	}
	return r, err
}
