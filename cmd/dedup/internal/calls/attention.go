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

const attentionLong = `List what somebody has to look at, each with what to do:

  broken     a record whose effect ended its own transaction
  parked     an effect outside of the database that may have happened
  twice      an effect outside of the database that happened more than once
  open       an effect outside of the database without an answer for more than an hour
  in_flight  an attempt at a younger one that takes longer than --older-than, or a
             session at a call for as long: it holds an advisory lock, or has written
             to tool_dedup
  sweep      records that have been due for more than an hour

Broken records are found among the latest 1,000 of the audit, attempts among the 2,000 oldest
effects without an answer. Of a call in flight the server knows the session and the effect's
last statement, and not the tool. The exit code is 1 when something is listed.`

// Attention returns the command `dedup attention`.
func Attention() *cobra.Command {
	var q cli.Query
	var olderThan time.Duration
	cmd := q.Command(&cobra.Command{
		Use:   "attention",
		Short: "List what somebody has to look at, and what to do",
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
	q.AddLimit(cmd, "how many of each kind are listed at most")
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
		cmd.PrintErrf("Not looked at: %s. A table is missing; `dedup migrate check` says which.\n", strings.Join(a.Missing, ", "))
	}
	if a.More != nil {
		cmd.PrintErrf("There are more of %s than are listed.\n", strings.Join(a.More, ", "))
	}
	switch {
	case a.Problem != nil:
		return cli.Explained(db, a.Problem)
	case len(a.Needs) == 0:
		cmd.PrintErrln("Nothing needs attention.")
		return nil
	case len(a.Needs) == 1:
		return errors.New("one thing needs attention")
	}
	return fmt.Errorf("%d things need attention", len(a.Needs))
}
