// Package cli is what the commands of the program dedup have in common: the
// root command, groups of commands, the database that a command asks, and how entries are written.
package cli

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/exit"
)

const long = `dedup is the companion of the Go library github.com/tooldedup/dedup, which makes
write tools run once however often they are called.

A program that uses the library needs the table tool_dedup in its database, which
"dedup migrate up" creates. "dedup attention" lists what somebody has to look at.

Databases are named by --database-url or by the environment variable
DATABASE_URL, such as postgres://user:password@localhost:5432/mydb.

The exit code is 0 when all is well, also where nothing is found that is asked for,
1 when a problem was found or the command failed, 2 for a command line that cannot
be carried out, and 130 after Ctrl-C.`

// Streams are where commands write: what they were asked for to Out, all else
// to Err.
type Streams struct{ Out, Err io.Writer }

// Run runs the program with the given commands and returns its exit code.
// Errors are written to streams.Err. What fails before a command runs is a command line that
// cannot be carried out. When ctx ends, the command stops what it
// is doing, which rolls an open transaction back, and the program is
// interrupted. [exit.Report] chooses the code of an error.
func Run(ctx context.Context, args []string, streams Streams, commands ...*cobra.Command) int {
	root := &cobra.Command{
		Use:           "dedup",
		Short:         "Write tools that run once: the companion of github.com/tooldedup/dedup",
		Long:          long,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          choose,
	}
	root.AddCommand(append(commands, &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "dedup version %s\n", version())
			return err
		},
	})...)
	root.SetArgs(args)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	runs := false
	marked(root, &runs)

	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exit.OK
	case !runs:
		err = &exit.UsageError{Err: err}
	}
	return exit.Report(ctx, streams.Err, cmd.CommandPath(), err)
}

// marked has a command and those below it say that they run.
func marked(cmd *cobra.Command, runs *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*runs = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		marked(sub, runs)
	}
}

// Group makes cmd a command that does nothing by itself: it wants one of its subcommands.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subcommands...)
	cmd.Args, cmd.RunE = cobra.NoArgs, choose
	return cmd
}

func choose(*cobra.Command, []string) error { return exit.Usage("which command?") }

// version is that of the module, as the go command recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}
