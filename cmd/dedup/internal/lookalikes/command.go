package lookalikes

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/recording"
)

const long = `Count how often the look-alike guard of package tool would have spoken in recorded
sessions: calls of one session and tool with equal arguments and keys of their own.

The first table counts those by what became of them. The second says to how many
the guard would have spoken, by its setting, and how many of those were second
actions: calls that succeeded after an equal one that had succeeded. To report marks
them, to refuse keeps them from running until they are confirmed.

FOLDER has calls.jsonl, trajectories.jsonl, final_state.jsonl and db/*.json of recorded
sessions; without one the small recording inside this program is counted. No database
is needed.`

// Command returns the command `dedup lookalikes`.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "lookalikes [FOLDER]",
		Short: "Count in recorded sessions what the look-alike guard would have reported or refused",
		Long:  long,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usage("unexpected argument %q", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			rec, err := open(args)
			if err != nil {
				return err
			}
			report, err := Measure(rec)
			if err != nil {
				return err
			}
			return report.print(cmd.OutOrStdout())
		},
	}
}

func open(args []string) (*recording.Recording, error) {
	if len(args) == 0 {
		return recording.Small()
	}
	rec, err := recording.Open(args[0])
	if err != nil {
		return nil, exit.Usage("%w", err)
	}
	return rec, nil
}

func (r Report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var all Repeats
	fmt.Fprintln(w, "TOOL\tWRITES\tFAILED AGAIN\tREPAIRED\tSECOND ACTION\tTOO LATE")
	for _, t := range r.Tools {
		t.print(w)
		all.Writes += t.Writes
		all.AfterFailure += t.AfterFailure
		all.Repaired += t.Repaired
		all.SecondAction += t.SecondAction
		all.TooLate += t.TooLate
	}
	all.Tool = fmt.Sprintf("all, in %d sessions", r.Sessions)
	all.print(w)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}

	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nGUARD\tFAILURES ARE\tWITHIN MESSAGES\tSPOKEN TO\tSECOND ACTIONS AMONG THEM")
	for _, s := range r.Settings {
		guard, failures, within := "report", "errors", "any"
		if s.Refuse {
			guard = "refuse"
		}
		if s.FailuresAreResults {
			failures = "results"
		}
		if s.Within > 0 {
			within = fmt.Sprint(s.Within)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\n", guard, failures, within, s.Calls, s.SecondActions)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func (t Repeats) print(w io.Writer) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", t.Tool, t.Writes, t.AfterFailure, t.Repaired, t.SecondAction, t.TooLate)
}
