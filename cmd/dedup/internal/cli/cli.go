// Package cli has the parts that the commands of the program dedup share: the root command, groups
// of commands, the connection to a database, and the output of entries.
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
"dedup migrate up" creates. "dedup attention" lists everything that needs a person.

Name the database with --database-url or with the environment variable DATABASE_URL,
such as postgres://user:password@localhost:5432/mydb.

The exit code is 0 if all is well, even if nothing is found; 1 if a problem was found
or the command failed; 2 for a usage error; and 130 after Ctrl-C.`

// Streams are the outputs of a command: Out for the requested data, Err for everything else.
type Streams struct{ Out, Err io.Writer }

// Run runs the program with the given commands and returns its exit code. It writes errors to
// streams.Err. An error before a command runs is a usage error. If ctx ends, the command stops,
// which rolls back an open transaction. [exit.Report] chooses the exit code of an error.
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

// marked makes a command and its subcommands set runs when they run.
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

// Group makes cmd a command that requires one of its subcommands.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subcommands...)
	cmd.Args, cmd.RunE = cobra.NoArgs, choose
	return cmd
}

func choose(*cobra.Command, []string) error { return exit.Usage("give a command") }

// version returns the module's version, as the go command recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}
