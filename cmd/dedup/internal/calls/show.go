package calls

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/inspect"
)

const showLong = `Show what is known of one call: its record, who is at it, its operation outside of the
database, and what was done to it by hand. The result is not shown without --result.

What is in flight has no row. Its lock says so: the process of the server that holds it, since
when its transaction is open, and who waits for it. What another role's transaction is about
is shown to members of pg_read_all_stats only.

With --claim-first the call is looked for as a process with Options.Order ClaimFirst does, by
a claim that is rolled back; else nothing is written.

` + "`dedup list --key-hash`" + ` finds a call by its key's hash.`

// Show returns the command `dedup show`.
func Show() *cobra.Command {
	var q cli.Query
	var result bool
	cmd := q.Command(&cobra.Command{
		Use:   "show SCOPE TOOL KEY",
		Short: "Show what became of a call",
		Long:  showLong,
		Example: `  dedup show acme refund order-7
  dedup show acme refund order-7 --result --json | jq .result`,
		Args: cobra.ExactArgs(3),
	}, "call", func(cmd *cobra.Command, db *inspect.Database, args []string) error {
		call, err := db.Call(cmd.Context(), args[0], args[1], args[2])
		if err != nil {
			return cli.Explained(db, err)
		}
		if !result {
			call.Hide()
		}
		if q.JSON {
			return q.Write(cmd, call, nil)
		}
		return writeCall(cmd.OutOrStdout(), call)
	})
	cmd.Flags().BoolVar(&result, "result", false, "show the result, or the refusal, as well")
	return cmd
}

func writeCall(out io.Writer, c *inspect.Call) error {
	text := []string{inspect.Name(c.Scope, c.Tool, c.Key), "state", c.State}
	if !c.CreatedAt.IsZero() {
		text = append(text,
			"created", moment(c.CreatedAt, c.Now),
			"expires", moment(c.ExpiresAt, c.Now),
			"forgotten", moment(c.ForgetAt, c.Now),
			"fingerprint", c.Fingerprint,
			"result", string(c.Result),
			"refusal", c.Refusal,
		)
	}
	for _, s := range c.Sessions {
		role := "in flight"
		if s.Waits {
			role = "waits"
		}
		text = append(text, role, sessionText(&s))
	}
	for _, a := range c.Audit {
		text = append(text, "audit", fmt.Sprintf("%s: %s by %s, %s", a.At.Format(time.RFC3339), a.Action, a.Actor, a.Reason))
	}
	if err := cli.WriteText(out, text); err != nil || c.Operation == nil {
		return err
	}
	text = operationText(c.Operation)
	text[0] = "outside of the database: " + text[0]
	return cli.WriteText(out, text)
}

func sessionText(s *inspect.Session) string {
	text := fmt.Sprintf("pid %d", s.PID)
	if !s.Since.IsZero() {
		text += ", transaction since " + moment(s.Since, s.Now)
	}
	for _, more := range []string{s.State, s.Application, s.Client, s.Statement} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}
