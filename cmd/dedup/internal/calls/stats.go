package calls

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const statsLong = `Say how many calls each tool had, how many of them were duplicates, and how long they took, as
Sweepers with RecordStats have recorded it. They keep 14 days. A process records once in its
Sweeper's Interval: what is younger is not in it.`

// Stats returns the command `dedup stats`.
func Stats() *cobra.Command {
	var q cli.Query
	var since time.Duration
	var by string
	cmd := q.Command(&cobra.Command{
		Use:   "stats",
		Short: "Say how many calls of each tool were duplicates",
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
			cmd.PrintErrf("Nothing was recorded in the last %s. Sweepers with RecordStats record.\n", inspect.Lasting(since))
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
