package cli_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
)

// run runs the program with a few commands and returns its exit code and output.
func run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	command := func(name string, fn func(*cobra.Command) error) *cobra.Command {
		return &cobra.Command{
			Use: name, Short: "Do " + name, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return fn(cmd) },
		}
	}
	hidden := command("worker", func(*cobra.Command) error { return nil })
	hidden.Hidden = true
	group := cli.Group(&cobra.Command{Use: "group"},
		command("fine", func(cmd *cobra.Command) error { cmd.Println("done"); return nil }),
		command("fail", func(*cobra.Command) error { return errors.New("dedup: it broke") }),
		command("usage", func(*cobra.Command) error { return exit.Usage("give %s", "more") }),
		command("coded", func(*cobra.Command) error { return coded{} }),
		command("wait", func(cmd *cobra.Command) error { <-cmd.Context().Done(); return cmd.Context().Err() }),
		hidden,
	)
	var out, errs bytes.Buffer
	code = cli.Run(ctx, args, cli.Streams{Out: &out, Err: &errs}, group)
	return code, out.String(), errs.String()
}

type coded struct{}

func (coded) Error() string { return "coded" }
func (coded) ExitCode() int { return 7 }

func TestRun(t *testing.T) {
	t.Parallel()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name           string
		ctx            context.Context
		args           []string
		code           int
		stdout, stderr string
	}{
		{"Fine", nil, []string{"group", "fine"}, exit.OK, "done\n", ""},
		{"Fails", nil, []string{"group", "fail"}, exit.Failed, "", "dedup: it broke\n"},
		{"Usage", nil, []string{"group", "usage"}, exit.Misused, "", "dedup: give more\nRun `dedup group usage --help` for help.\n"},
		{"OwnCode", nil, []string{"group", "coded"}, 7, "", "dedup: coded\n"},
		{"Interrupted", ended, []string{"group", "wait"}, exit.Interrupted, "", "dedup: interrupted\n"},
		{"InterruptedTooLate", ended, []string{"group", "fine"}, exit.OK, "done\n", ""},
		{"Argument", nil, []string{"group", "fine", "x"}, exit.Misused, "", "dedup: unknown command \"x\" for \"dedup group fine\"\nRun `dedup group fine --help` for help.\n"},
		{"Flag", nil, []string{"group", "fine", "--x"}, exit.Misused, "", "dedup: unknown flag: --x\nRun `dedup group fine --help` for help.\n"},
		{"NoCommand", nil, []string{}, exit.Misused, "", "dedup: give a command\nRun `dedup --help` for help.\n"},
		{"UnknownCommand", nil, []string{"grop"}, exit.Misused, "", "dedup: unknown command \"grop\" for \"dedup\"\n\nDid you mean this?\n\tgroup\n\nRun `dedup --help` for help.\n"},
		{"NoSubcommand", nil, []string{"group"}, exit.Misused, "", "dedup: give a command\nRun `dedup group --help` for help.\n"},
		{"UnknownSubcommand", nil, []string{"group", "xyzzy"}, exit.Misused, "", "dedup: unknown command \"xyzzy\" for \"dedup group\"\nRun `dedup group --help` for help.\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx := tc.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			code, stdout, stderr := run(ctx, tc.args...)
			require.Equal(t, tc.stderr, stderr)
			require.Equal(t, tc.stdout, stdout)
			require.Equal(t, tc.code, code)
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"--help"}, {"help"}, {"-h"}} {
		code, stdout, stderr := run(t.Context(), args...)
		require.Zero(t, code)
		require.Empty(t, stderr)
		require.Contains(t, stdout, "DATABASE_URL")
		require.Contains(t, stdout, "Available Commands")
	}
	for _, arg := range []string{"--version", "version"} {
		code, stdout, stderr := run(t.Context(), arg)
		require.Zero(t, code, stderr)
		require.Regexp(t, `^dedup version \S+\n$`, stdout)
	}
}
