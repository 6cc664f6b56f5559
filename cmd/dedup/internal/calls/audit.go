package calls

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const auditLong = `List manual changes to calls, and broken records, latest first: resets, erased answers, verdicts on
effects outside the database, and effects that ended their own transaction. Each entry has the
actor, the database role and the reason. --key requires --tool, and --tool requires --scope.`

// Audit returns the command `dedup audit`.
func Audit() *cobra.Command {
	var q cli.Query
	var f inspect.Filter
	cmd := q.Command(&cobra.Command{
		Use:   "audit",
		Short: "List resets, verdicts and erased answers, with their actor and reason",
		Long:  auditLong,
		Example: `  dedup audit --limit 20
  dedup audit --scope acme --tool refund --key order-7 --json`,
		PreRunE: func(*cobra.Command, []string) error {
			if f.Tool != "" && f.Scope == "" || f.Key != "" && f.Tool == "" {
				return exit.Usage("--key requires --tool, and --tool requires --scope")
			}
			return nil
		},
	}, "entry", func(cmd *cobra.Command, db *inspect.Database, _ []string) error {
		page, err := db.Audit(cmd.Context(), &f, q.After, q.Limit)
		if err != nil {
			return cli.Explained(db, err)
		}
		return cli.WritePage(cmd, &q, page, cli.CommandLine("dedup audit", "scope", f.Scope, "tool", f.Tool, "key", f.Key), "The audit has no such entry.", auditText)
	})
	q.AddPage(cmd)
	cmd.Flags().StringVar(&f.Scope, "scope", "", "`name` of the scope")
	cmd.Flags().StringVar(&f.Tool, "tool", "", "`name` of the tool")
	cmd.Flags().StringVar(&f.Key, "key", "", "the call's `key`")
	return cmd
}

func auditText(a *inspect.AuditLine) []string {
	by := a.Actor
	if a.Role != a.Actor {
		by += " as role " + a.Role
	}
	return []string{
		inspect.Name(a.Scope, a.Tool, a.Key),
		"action", a.Action + " by " + by,
		"at", moment(a.At, a.Now),
		"was", a.Outcome + " of " + a.CreatedAt.Format(time.RFC3339Nano),
		"reason", a.Reason,
	}
}
