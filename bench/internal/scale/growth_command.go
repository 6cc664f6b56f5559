package scale

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

// GrowthCommand returns the command `growth`.
func GrowthCommand() *cobra.Command {
	o := GrowthOptions{}
	var kinds []string
	m := measurement{
		use:   "growth",
		short: "Measure the cost of a call against the size of its table",
		long: `Fill tables by COPY with the records that the library would write, and measure
first calls on them: time, WAL and room. Every size is measured in the same rounds
as the bare transaction and as a table of the smallest size. The full form needs
25 GB of disk, in the folder that TMPDIR names, and takes the time that it takes to
fill 26 million records twice.`,
		// A checkpoint in the middle of a round would make pages be written whole
		// again. Those that are wanted are asked for.
		settings: map[string]string{"checkpoint_timeout": "1h"},
		check: func() error {
			o.Kinds = nil
			for _, kind := range kinds {
				o.Kinds = append(o.Kinds, KeyKind(kind))
			}
			return o.check()
		},
		measure: func(ctx context.Context, s stand) (finding, error) { return growth(ctx, s, o) },
	}
	cmd := m.command()
	set := cmd.Flags()
	set.IntSliceVar(&o.Sizes, "sizes", []int{10_000, 100_000, 1_000_000, 5_000_000, 20_000_000}, "`records` in the tables")
	set.IntSliceVar(&o.Clients, "clients", []int{1, 16}, "`numbers` of callers at a time")
	set.StringSliceVar(&kinds, "keys", []string{string(OrderedKeys), string(RandomKeys)}, "`kinds` of keys")
	set.IntVar(&o.Rounds, "rounds", 5, "how often each measurement is made")
	set.IntVar(&o.Calls, "calls", 1_000, "calls of each way in each round")
	set.IntVar(&o.Real, "real", 50_000, "calls whose records are weighed")
	return cmd
}

// check also sorts the sizes.
func (o *GrowthOptions) check() error {
	slices.Sort(o.Sizes)
	for _, list := range []struct {
		flag   string
		values []int
	}{
		{"sizes", o.Sizes}, {"clients", o.Clients}, {"rounds", []int{o.Rounds}}, {"calls", []int{o.Calls}}, {"real", []int{o.Real}},
	} {
		if len(list.values) == 0 || slices.Min(list.values) < 1 {
			return fmt.Errorf("--%s: must be at least 1", list.flag)
		}
	}
	if len(o.Kinds) == 0 {
		return fmt.Errorf("--keys: choose %s or %s, or both", OrderedKeys, RandomKeys)
	}
	for _, kind := range o.Kinds {
		if err := kind.check(); err != nil {
			return fmt.Errorf("--keys: %w", err)
		}
	}
	return nil
}
