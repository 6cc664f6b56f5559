package records

import (
	"context"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const auditLong = `List what was done to calls by hand, and which records were broken, the latest first: resets,
verdicts on effects outside of the database, and effects that ended their own transaction. Each
line has who did it, the database's role, and why. --key wants --tool, and --tool wants --scope.`

// search is what the command line says.
type search struct{ scope, tool, key string }

// AuditCommand returns the command `dedup audit`.
func AuditCommand() *cobra.Command {
	var q cli.Query
	var page cli.Page
	var s search
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List who freed records and resolved effects, and why",
		Long:  auditLong,
		Example: `  dedup audit --limit 20
  dedup audit --scope acme --tool refund --key order-7 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd, &q, &page) },
	}
	q.AddFlags(cmd, "entry")
	page.AddFlags(cmd)
	cmd.Flags().StringVar(&s.scope, "scope", "", "`name` of the scope")
	cmd.Flags().StringVar(&s.tool, "tool", "", "`name` of the tool")
	cmd.Flags().StringVar(&s.key, "key", "", "the call's `key`")
	return cmd
}

func (s *search) run(cmd *cobra.Command, q *cli.Query, page *cli.Page) error {
	if s.tool != "" && s.scope == "" || s.key != "" && s.tool == "" {
		return exit.Usage("--key wants --tool, and --tool wants --scope")
	}
	type line struct{ ID int64 }
	list := cli.List[line]{Command: "add", Nothing: "Nothing is written down."}
	list.Read = func(ctx context.Context, tx pgx.Tx, db *cli.Database, after line, limit int) (found []cli.Item[line], next *line, err error) {
		lines, err := s.audit().Audit(ctx, tx, db.Schema, after.ID, limit+1) // the last one says that there is more
		for _, l := range lines[:min(len(lines), limit)] {
			found = append(found, cli.Item[line]{Entry: &auditLine{AuditLine: l}, At: line{l.ID}})
		}
		if len(lines) > limit {
			next = &found[limit-1].At
		}
		return found, next, err
	}
	return list.Write(cmd, q, page)
}

func (s *search) audit() *inspect.Search {
	return &inspect.Search{Scope: s.scope, Tool: s.tool, Key: s.key}
}

// auditLine is a line of the audit as --json writes it. Its fields are stable: more may come,
// none goes.
type auditLine struct {
	inspect.AuditLine
	cli.Position
}

// WriteText implements [cli.Entry].
func (a *auditLine) WriteText(out io.Writer) error {
	by := a.Actor
	if a.Role != a.Actor {
		by += " as role " + a.Role
	}
	return cli.WriteText(out, cli.Name(a.Scope, a.Tool, a.Key),
		"action", a.Action+" by "+by,
		"at", moment(a.At, a.Now),
		"was", a.Outcome+" of "+a.CreatedAt.Format(time.RFC3339Nano),
		"reason", a.Reason,
	)
}
