package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/exit"
)

// Group makes cmd a command that does nothing by itself: it wants one of its
// subcommands, and answers anything else with an [*exit.UsageError] that names them.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subcommands...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			return exit.Usage("unknown command %q; did you mean %s?", args[0], strings.Join(similar, " or "))
		}
		return exit.Usage("unknown command %q; choose one of: %s", args[0], choices(cmd))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return exit.Usage("which command? Choose one of: %s", choices(cmd))
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

// NoArgs is for cobra.Command.Args: it answers any argument with an
// [*exit.UsageError].
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usage("unexpected argument %q", args[0])
	}
	return nil
}
