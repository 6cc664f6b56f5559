package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const showLong = `Show one call: its record, the session that runs it, its operation outside the database, and the
manual changes to it. The result is shown only with --result.

A call in flight has no row. It is found by its advisory lock: the process of the server that
holds it, the start of its transaction, and the sessions that wait for it. Only members of
pg_read_all_stats see the transactions of other roles.

On engines with claims, such as Citus, a call without a record is looked up with a claim that is
rolled back. On PostgreSQL nothing is written.

With --key-hash the call is found by the hash from a log line, a span or an error instead of its
KEY: by its record or by its operation outside the database, among the 200,000 greatest keys of
the tool.

A call that is not found did not run, or its effect was rolled back, or its record was deleted.`

// Show returns the command `dedup show`.
func Show() *cobra.Command {
	var q cli.Query
	var result bool
	var hash string
	cmd := q.Command(&cobra.Command{
		Use:   "show SCOPE TOOL (KEY | --key-hash HASH)",
		Short: "Show the state of a call",
		Long:  showLong,
		Example: `  dedup show acme refund order-7
  dedup show acme refund --key-hash d860c2f71020f5e9
  dedup show acme refund order-7 --result --json | jq .result`,
		Args: cobra.RangeArgs(2, 3),
		PreRunE: func(_ *cobra.Command, args []string) error {
			switch {
			case (len(args) == 3) == (hash != ""):
				return exit.Usage("give the call's KEY or its --key-hash")
			case hash != "" && !keyHash.MatchString(hash):
				return notAHash
			}
			return nil
		},
	}, "call", func(cmd *cobra.Command, db *inspect.Database, args []string) error {
		if hash != "" {
			key, err := keyOf(cmd.Context(), db, args[0], args[1], hash)
			if err != nil {
				return cli.Explained(db, err)
			}
			args = append(args, key)
		}
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
	cmd.Flags().StringVar(&hash, "key-hash", "", "find the call by this `hash` of its key")
	cmd.Flags().BoolVar(&result, "result", false, "show the result, or the refusal, as well")
	return cmd
}

var notAHash = exit.Usage("--key-hash must be 16 hex digits, as in logs")

// keyOf finds the key with the hash.
func keyOf(ctx context.Context, db *inspect.Database, scope, tool, hash string) (string, error) {
	key, found, all, err := db.Find(ctx, scope, tool, hash)
	switch {
	case err != nil:
		return "", err
	case !found && !all:
		return "", fmt.Errorf("no key with this hash was found among the greatest keys; search the others with: dedup list %s --key-hash %s",
			"--scope "+inspect.Word(scope)+" --tool "+inspect.Word(tool), hash)
	case !found:
		return "", errors.New("no call of this tool in this scope has a key with this hash: it did not run, or its effect was rolled back, or its record was deleted")
	}
	return key, nil
}

func writeCall(out io.Writer, c *inspect.Call) error {
	text := []string{inspect.Name(c.Scope, c.Tool, c.Key), "state", strings.ReplaceAll(c.State, "_", " ")}
	if c.State == string(dedup.StateNotFound) && c.Operation == nil {
		text = append(text, "which means", "no call with exactly these names is recorded: it did not run, or its effect was rolled back, or its record was deleted")
	}
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
	text[0] = "outside the database: " + text[0]
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
