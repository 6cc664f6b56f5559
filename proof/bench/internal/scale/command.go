// Package scale measures what a single call on a small table does not show: how
// dedup.Do fares as its table grows and while expired records are swept, and how an outbox keeps up.
//
// Each of its commands starts a private server with the settings of production
// and its data on a disk, and writes what it measured to the terminal. What is
// wanted stands in the headings of the tables.
package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
)

const day = 24 * time.Hour

// command makes of cmd one that checks its counts, which must be positive, starts a server, and measures on it.
func command(cmd *cobra.Command, counts func() []int, measure func(context.Context, *bed.Bed) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, n := range counts() {
			if n < 1 {
				return fmt.Errorf("%d: a number must be at least 1", n)
			}
		}
		return bed.Run(cmd, bed.Options{}, func(ctx context.Context, b *bed.Bed) error {
			machine, err := b.Machine(ctx)
			if err != nil {
				return err
			}
			machine.Write(b.Out)
			return measure(ctx, b)
		})
	}
	return cmd
}
