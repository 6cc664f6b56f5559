// Package scale measures what a single call on a small table does not show: how
// dedup.Do fares as its table grows and while expired records are swept, what operators'
// questions cost on a large table, and how an outbox keeps up.
//
// Each of its commands starts a private server with the settings of production
// and its data on a disk, and writes what it measured to the terminal. What is
// wanted stands in the headings of the tables.
package scale

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/bed"
)

// stand is where a measurement takes place, and where it writes what was found and how far it has come.
type stand struct {
	*bed.Bed
	out io.Writer
	say func(format string, args ...any)
}

// command makes of cmd one that checks its counts, which must be positive, starts a server, and measures on it.
func command(cmd *cobra.Command, counts func() []int, measure func(context.Context, stand) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		for _, n := range append(counts(), 1) {
			if n < 1 {
				return fmt.Errorf("%d: a number must be at least 1", n)
			}
		}
		ctx := cmd.Context()
		// Checkpoints are those that are asked for: one in the middle of a round would make
		// pages be written whole again, and with the default of 1 GB of WAL a filling would force
		// one after the other.
		b, err := bed.Start(ctx, bed.Options{
			Settings: map[string]string{"shared_buffers": "1GB", "max_wal_size": "16GB", "checkpoint_timeout": "1h"},
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.Stop(ctx)) }()
		machine, err := b.Machine(ctx)
		if err != nil {
			return err
		}
		machine.Write(cmd.OutOrStdout())
		say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
		return measure(ctx, stand{b, cmd.OutOrStdout(), say})
	}
	return cmd
}

// ratio is a/b, and 0 where there is no b to compare with.
func ratio[N ~int64 | ~float64](a, b N) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
