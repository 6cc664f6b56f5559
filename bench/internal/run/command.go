// Package run is the command that measures all ways in one run: one server, the
// ways interleaved round by round, each compared with the bare transaction of the
// same round.
package run

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/bounds"
	"github.com/tooldedup/dedup/bench/internal/report"
)

// Command returns the command run.
func Command() *cobra.Command {
	o := defaults()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure what running once costs, on a real Postgres",
		Long: `Measures first calls and replays of the library, of the transaction without it, and
of what else is used, on one private Postgres with production's settings. The ways
take turns, round by round, and each is compared with the bare transaction of the
same round, or with the way that --to names.

With --check a short form is run and compared with bounds. What breaks one is
measured once more, and fails if it is broken again. The other flags that say what
is measured are not taken then.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Check {
				for _, name := range []string{"rounds", "duration", "delays", "clients", "ways", "kinds", "to"} {
					if cmd.Flags().Changed(name) {
						return fmt.Errorf("--check is a fixed run, for which the bounds were set: leave --%s out", name)
					}
				}
				o.short(checkRounds, bounds.All())
			}
			return execute(cmd, o)
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

// execute measures, and writes the table to the command's output.
func execute(cmd *cobra.Command, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	logf := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	r, err := measureAll(cmd.Context(), o, logf)
	if err != nil {
		return err
	}
	report.WriteTable(out, r)
	if o.JSON != "" {
		if err := report.WriteJSON(o.JSON, r); err != nil {
			return err
		}
	}
	if !o.Check {
		return nil
	}
	err = bounds.Check(out, r)
	broken, ok := errors.AsType[*bounds.BrokenError](err)
	if !ok {
		return err
	}
	fmt.Fprint(out, "A bound is broken. Measuring that once more, to tell a slow library from a busy machine.\n\n")
	o.short(againRounds, broken.Broken)
	again, err := measureAll(cmd.Context(), o, logf)
	if err != nil {
		return err
	}
	report.WriteTable(out, again)
	return bounds.Check(out, r, again)
}
