package calls

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const parkedLong = `List the operations outside the database that need a person, oldest first: those that are
parked, because they may have happened and only a person can decide, and those that happened
twice. Search the provider's books for the provider key and for the provider's id, the ref. The
input is not listed; the note may quote the provider.

With --open the operations are listed that have no answer and are not parked, if they are as old
as --older-than. They are accepted and not done, or attempted without an answer. ` + "`dedup resolve`" + `
takes these too, unless an attempt is in progress.

If there are more, the command for the next page is written to stderr.`

// Parked returns the command `dedup parked`.
func Parked() *cobra.Command {
	var q cli.Query
	var open bool
	var olderThan time.Duration
	cmd := q.Command(&cobra.Command{
		Use:   "parked",
		Short: "List the effects outside the database that need a person",
		Long:  parkedLong,
		Example: `  dedup parked --database-url postgres://app:password@localhost:5432/mydb
  dedup parked --open --older-than 1h
  dedup parked --json | jq -r 'select(.state == "parked") | .provider_key'`,
		PreRunE: func(*cobra.Command, []string) error {
			if olderThan > 0 && !open {
				return exit.Usage("--older-than requires --open")
			}
			return nil
		},
	}, "operation", func(cmd *cobra.Command, db *inspect.Database, _ []string) error {
		page, err := db.Operations(cmd.Context(), open, olderThan, q.After, q.Limit)
		if err != nil {
			return cli.Explained(db, err)
		}
		command, nothing := "dedup parked", "No operation is parked or happened twice."
		if open {
			command, nothing = "dedup parked --open --older-than "+cmd.Flag("older-than").Value.String(), "No operation is open."
		}
		return cli.WritePage(cmd, &q, page, command, nothing, operationText)
	})
	q.AddPage(cmd)
	cmd.Flags().BoolVar(&open, "open", false, "list operations that have no answer and are not parked")
	cli.AddDuration(cmd, &olderThan, "older-than", 0, "with --open: minimum age")
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
