// Package cli is the command line of the program proof.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/exit"
)

const long = `proof shows that the promise of github.com/tooldedup/dedup holds: write tools take
effect once however often they are called.

The exit code is 0 when all is well, 1 when the promise was broken or the command
failed, 2 for a command line that cannot be carried out, and 130 after Ctrl-C.`

// Run runs the program with the given commands and returns its exit code, as
// [exit.Report] chooses it. When ctx ends, the command stops.
func Run(ctx context.Context, args []string, out, errs io.Writer, commands ...*cobra.Command) int {
	started := false
	root := &cobra.Command{
		Use:              "proof",
		Short:            "Recorded sessions and faults: whether write tools take effect once",
		Long:             long,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { started = true },
	}
	root.AddCommand(commands...)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)

	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exit.OK
	}
	if !started { // cobra itself refused the command line
		err = &exit.UsageError{Err: err}
	}
	return exit.Report(ctx, errs, cmd.CommandPath(), err)
}
