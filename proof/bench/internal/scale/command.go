// Package scale measures what a single call on a small table does not show: dedup.Do on a growing
// table and beside a sweep, and the speed of an outbox.
//
// Each of its commands starts a private server with production's settings and its data on a disk,
// and writes its figures to the terminal. The headings of the tables have the goals.
package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
)

const day = 24 * time.Hour

// command completes cmd: it checks the counts, which must be positive, starts a server and measures
// on it.
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
