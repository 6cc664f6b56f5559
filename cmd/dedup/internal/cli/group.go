package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group makes cmd a command that does nothing by itself: it wants one of its
// subcommands, and answers anything else with a [*UsageError] that names them.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subcommands...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			return Usage("unknown command %q; did you mean %s?", args[0], strings.Join(similar, " or "))
		}
		return Usage("unknown command %q; choose one of: %s", args[0], choices(cmd))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return Usage("which command? Choose one of: %s", choices(cmd))
	}
	return cmd
}

func choices(cmd *cobra.Command) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			names = append(names, sub.Name())
		}
	}
	return strings.Join(names, ", ")
}

// report writes what went wrong.
func report(cmd *cobra.Command, err error, code int) {
	out := cmd.ErrOrStderr()
	if code == ExitInterrupted {
		_, _ = fmt.Fprintln(out, "dedup: interrupted")
		return
	}
	// Errors of the library say by themselves where they come from.
	_, _ = fmt.Fprintf(out, "dedup: %s\n", strings.TrimPrefix(err.Error(), "dedup: "))
	var usage *UsageError
	if errors.As(err, &usage) {
		_, _ = fmt.Fprintf(out, "Run `%s --help` for help.\n", cmd.CommandPath())
	}
}
