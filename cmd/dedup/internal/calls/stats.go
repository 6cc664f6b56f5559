package calls

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const statsLong = `Print for each tool the number of calls, the number of duplicates among them, and their duration,
as recorded by Sweepers with RecordStats. They keep 14 days. A process records once per Interval
of its Sweeper, so the latest calls may be missing.`

// Stats returns the command `dedup stats`.
func Stats() *cobra.Command {
	var q cli.Query
	var since time.Duration
	var by string
	cmd := q.Command(&cobra.Command{
		Use:   "stats",
		Short: "Print the calls and duplicates of each tool",
		Long:  statsLong,
		Example: `  dedup stats --since 1h
  dedup stats --by outcome --json | jq 'select(.outcome == "unknown")'`,
		PreRunE: func(*cobra.Command, []string) error {
			switch {
			case since == 0 || since > inspect.Kept:
				return exit.Usage("--since must be more than 0 and at most 14d")
			case by != "tool" && by != "outcome":
				return exit.Usage("--by must be tool or outcome")
			}
			return nil
		},
	}, "row", func(cmd *cobra.Command, db *inspect.Database, _ []string) error {
		recorded, err := db.Recorded(cmd.Context(), since, 1)
		if err != nil {
			return cli.Explained(db, err)
		}
		if len(recorded) == 0 {
			cmd.PrintErrf("No counts were recorded in the last %s. A Sweeper with RecordStats records them.\n", inspect.Lasting(since))
		}
		for _, c := range inspect.Tally(recorded, by == "outcome") {
			if err := q.Write(cmd, &c, countText(&c)); err != nil {
				return err
			}
		}
		return nil
	})
	cli.AddDuration(cmd, &since, "since", 24*time.Hour, "how far back, up to 14d")
	cmd.Flags().StringVar(&by, "by", "tool", "one row for each `what`: tool, or outcome of each tool")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"tool", "outcome"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func countText(c *inspect.Count) []string {
	average := func(seconds float64) string { return inspect.Lasting(time.Duration(seconds * float64(time.Second))) }
	took := average(c.Seconds) + ", of which " + average(c.Waited) + " waiting for twins"
	if c.Outcome != "" {
		return []string{inspect.Word(c.Tool) + ": " + inspect.Word(c.Outcome), "calls", fmt.Sprint(c.Calls), "on average", took}
	}
	return []string{
		inspect.Word(c.Tool),
		"calls", fmt.Sprint(c.Calls),
		"ran", fmt.Sprint(c.Ran),
		"duplicates", fmt.Sprintf("%d (%.1f %%)", c.Duplicates, 100*c.Rate),
		"on average", took,
	}
}
