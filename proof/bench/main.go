// Command bench measures the cost of the library beside the plain transaction and common
// alternatives. See `go run ./proof/bench --help`.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/proof/bench/internal/chart"
	"github.com/tooldedup/dedup/proof/bench/internal/delay"
	"github.com/tooldedup/dedup/proof/bench/internal/run"
	"github.com/tooldedup/dedup/proof/bench/internal/scale"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs the program and returns its exit code: 1 for a broken bound or any other error,
// otherwise 0.
func execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := &cobra.Command{
		Use:           "bench",
		Short:         "What running once costs: the benchmarks of github.com/tooldedup/dedup",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	root.AddCommand(run.Command(), scale.GrowthCommand(), scale.SweepCommand(), scale.RecoverCommand(), chart.Command(),
		&cobra.Command{ // the hidden process of the delay proxy
			Use: delay.CommandName, Hidden: true, DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				return delay.Serve(cmd.InOrStdin(), cmd.OutOrStdout(), args)
			},
		})
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(errs, "bench: %v\n", err)
		return 1
	}
	return 0
}
