package calls

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/inspect"
)

const attentionLong = `List everything that needs a person, each entry with the next step:

  broken     a record whose effect ended its own transaction
  parked     an effect outside the database that may have happened
  twice      an effect outside the database that happened more than once
  open       an effect outside the database without an answer for more than an hour
  in_flight  a younger effect whose attempt takes longer than --older-than; or a session
             that holds a call's advisory lock, or has written to tool_dedup, for as long
  sweep      records that have been due for more than an hour

Broken records are searched in the latest 1,000 entries of the audit, and attempts in the 2,000
oldest effects without an answer. For a call in flight the server knows the session and the
effect's last statement, but not the tool. The exit code is 1 if anything is listed.`

// Attention returns the command `dedup attention`.
func Attention() *cobra.Command {
	var q cli.Query
	var olderThan time.Duration
	cmd := q.Command(&cobra.Command{
		Use:   "attention",
		Short: "List everything that needs a person, with the next step",
		Long:  attentionLong,
		Example: `  dedup attention
  dedup attention --older-than 30s --json | jq -r .kind`,
	}, "entry", func(cmd *cobra.Command, db *inspect.Database, _ []string) error {
		a, err := db.Attention(cmd.Context(), nil, olderThan, q.Limit)
		if err != nil {
			return cli.Explained(db, err)
		}
		return writeAttention(cmd, &q, db, a)
	})
	cli.AddDuration(cmd, &olderThan, "older-than", time.Minute, "how long a call may be in flight")
	q.AddLimit(cmd, "maximum number of entries of each kind")
	return cmd
}

func writeAttention(cmd *cobra.Command, q *cli.Query, db *inspect.Database, a *inspect.Attention) error {
	for i := range a.Needs {
		n := &a.Needs[i]
		if n.Session != nil {
			n.Note += ", " + sessionText(n.Session)
		}
		title := n.Kind
		if n.Key != "" {
			title += ": " + inspect.Name(n.Scope, n.Tool, n.Key)
		}
		if err := q.Write(cmd, n, []string{title, "since", moment(n.Since, n.Now), "note", n.Note, "do", n.Do}); err != nil {
			return err
		}
	}
	if a.Missing != nil {
		cmd.PrintErrf("Not checked: %s. A table is missing; `dedup migrate check` names it.\n", strings.Join(a.Missing, ", "))
	}
	if a.More != nil {
		cmd.PrintErrf("There are more entries than are listed: %s.\n", strings.Join(a.More, ", "))
	}
	switch {
	case a.Problem != nil:
		return cli.Explained(db, a.Problem)
	case len(a.Needs) == 0:
		cmd.PrintErrln("Nothing needs attention.")
		return nil
	case len(a.Needs) == 1:
		return errors.New("1 entry needs attention")
	}
	return fmt.Errorf("%d entries need attention", len(a.Needs))
}
