package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/cmd/dedup/internal/effects"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
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

// shownLines is how many lines of the audit are shown.
const shownLines = 20

// ShowCommand returns the command `dedup show`.
func ShowCommand() *cobra.Command {
	var q cli.Query
	var s showing
	cmd := &cobra.Command{
		Use:   "show SCOPE TOOL KEY",
		Short: "Show what became of a call",
		Long:  showLong,
		Example: `  dedup show acme refund order-7
  dedup show acme refund order-7 --result --json | jq .result`,
		Args: cli.IdentityArgs("call"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.scope, s.tool, s.key = args[0], args[1], args[2]
			return s.run(cmd, &q)
		},
	}
	q.AddFlags(cmd, "call")
	cli.AddOrder(cmd, &s.opts)
	cmd.Flags().BoolVar(&s.result, "result", false, "show the result, or the refusal, as well")
	return cmd
}

// showing is what the command line says.
type showing struct {
	search
	opts   dedup.Options
	result bool
}

func (s *showing) run(cmd *cobra.Command, q *cli.Query) error {
	return q.With(cmd, &s.opts, func(ctx context.Context, db *cli.Database) error {
		known, err := look(ctx, db, &s.search)
		if err != nil {
			return err
		}
		if !s.result {
			known.Result, known.Refusal = nil, ""
		}
		return q.Write(cmd.OutOrStdout(), known)
	})
}

// known is all that is known of a call, as --json writes it. Its fields are stable: more may
// come, none goes.
type known struct {
	Scope       string              `json:"scope"`
	Tool        string              `json:"tool"`
	Key         string              `json:"key"`
	State       string              `json:"state"`
	Fingerprint string              `json:"fingerprint,omitempty"`
	CreatedAt   time.Time           `json:"created_at,omitzero"`
	ExpiresAt   time.Time           `json:"expires_at,omitzero"`
	ForgetAt    time.Time           `json:"forget_at,omitzero"`
	Result      json.RawMessage     `json:"result,omitempty"`
	Refusal     string              `json:"refusal,omitempty"`
	Sessions    []inspect.Session   `json:"sessions,omitempty"`
	Operation   *effects.Entry      `json:"operation,omitempty"`
	Audit       []inspect.AuditLine `json:"audit,omitempty"`

	now time.Time
}

// look reads all that is known of a call.
func look(ctx context.Context, db *cli.Database, s *search) (*known, error) {
	k := &known{Scope: s.scope, Tool: s.tool, Key: s.key}
	if err := k.lookUp(ctx, db); err != nil {
		return nil, err
	}
	if err := db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
		k.Sessions, err = inspect.Sessions(ctx, tx, db.Schema, s.scope, s.tool, s.key)
		return err
	}); err != nil {
		return nil, err
	}
	err := db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
		k.Audit, err = s.audit().Audit(ctx, tx, db.Schema, 0, shownLines)
		return err
	})
	if err != nil && !inspect.IsMissing(err) {
		return nil, err
	}
	return k, nil
}

func (k *known) lookUp(ctx context.Context, db *cli.Database) error {
	ctx, cancel := context.WithTimeout(ctx, db.Timeout)
	defer cancel()
	status, err := db.D.Lookup(ctx, k.Scope, k.Tool, k.Key)
	switch {
	case errors.Is(err, dedup.ErrInvalid):
		return exit.Usage("%w", err)
	case err != nil:
		return db.Explained(err)
	}
	k.State, k.now = status.State.String(), status.Now
	k.CreatedAt, k.ExpiresAt, k.ForgetAt = status.CreatedAt.UTC(), status.ExpiresAt.UTC(), status.ForgetAt.UTC()
	if !status.CreatedAt.IsZero() {
		k.Fingerprint = status.Fingerprint.String()
	}
	k.Result = status.Result
	if status.Refusal != nil {
		k.Refusal = status.Refusal.Message
	}
	outside, err := db.Tools.Status(ctx, k.Scope, k.Tool, k.Key)
	op := outside.Operation
	switch {
	case inspect.IsMissing(err) || err == nil && op.State == external.None:
	case err != nil:
		return db.Explained(err)
	default:
		entry := effects.NewEntry(op)
		k.Operation = &entry
	}
	return nil
}

// WriteText implements [cli.Entry].
func (k *known) WriteText(out io.Writer) error {
	fields := []string{"state", k.State}
	if !k.CreatedAt.IsZero() {
		fields = append(fields,
			"created", moment(k.CreatedAt, k.now),
			"expires", moment(k.ExpiresAt, k.now),
			"forgotten", moment(k.ForgetAt, k.now),
			"fingerprint", k.Fingerprint,
			"result", string(k.Result),
			"refusal", k.Refusal,
		)
	}
	for _, s := range k.Sessions {
		fields = append(fields, role(&s), sessionText(&s))
	}
	for _, a := range k.Audit {
		fields = append(fields, "audit", fmt.Sprintf("%s: %s by %s, %s", a.At.Format(time.RFC3339), a.Action, a.Actor, a.Reason))
	}
	if err := cli.WriteText(out, cli.Name(k.Scope, k.Tool, k.Key), fields...); err != nil {
		return err
	}
	if k.Operation == nil {
		return nil
	}
	if _, err := io.WriteString(out, "outside of the database: "); err != nil {
		return err
	}
	return k.Operation.WriteText(out)
}
