package calls

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const parkedLong = `List the operations outside of the database that somebody has to look at, the oldest
first: those that are parked, because they may have happened and only a person can say,
and those that happened twice. The provider's key and its id, the ref, are what to search its
books for. Nothing of the input is listed; the note may have the provider's words.

With --open those are listed that have no answer and are not parked, of the age of
--older-than: what is accepted and not done, and what is tried without an answer.
` + "`dedup resolve`" + ` takes these too, while no attempt is under way.

Where there is more, the command that lists it is written to stderr.`

// Parked returns the command `dedup parked`.
func Parked() *cobra.Command {
	var q cli.Query
	var open bool
	var olderThan time.Duration
	cmd := q.Command(&cobra.Command{
		Use:   "parked",
		Short: "List the effects outside of the database that somebody has to look at",
		Long:  parkedLong,
		Example: `  dedup parked --database-url postgres://app:password@localhost:5432/mydb
  dedup parked --open --older-than 1h
  dedup parked --json | jq -r 'select(.state == "parked") | .provider_key'`,
		PreRunE: func(*cobra.Command, []string) error {
			if olderThan > 0 && !open {
				return exit.Usage("--older-than goes with --open")
			}
			return nil
		},
	}, "operation", func(cmd *cobra.Command, db *inspect.Database, _ []string) error {
		page, err := db.Operations(cmd.Context(), open, olderThan, q.After, q.Limit)
		if err != nil {
			return cli.Explained(db, err)
		}
		command, nothing := "dedup parked", "Nothing is parked, and nothing has happened twice."
		if open {
			command, nothing = "dedup parked --open --older-than "+cmd.Flag("older-than").Value.String(), "Nothing is open."
		}
		return cli.WritePage(cmd, &q, page, command, nothing, operationText)
	})
	q.AddPage(cmd)
	cmd.Flags().BoolVar(&open, "open", false, "list what has no answer and is not parked")
	cli.AddDuration(cmd, &olderThan, "older-than", 0, "with --open: how old it is at least")
	return cmd
}

func operationText(op *inspect.Operation) []string {
	return []string{
		inspect.Name(op.Scope, op.Tool, op.Key),
		"state", fmt.Sprintf("%s since %s (%s), fence %d", op.State, op.Since.Format(time.RFC3339), inspect.Ago(op.Since, op.Now), op.Fence),
		"key hash", op.KeyHash,
		"provider key", op.ProviderKey,
		"ref", op.Ref,
		"twice", op.Twice,
		"note", op.Note,
		"verdict", op.Decision,
	}
}
