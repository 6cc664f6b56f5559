package calls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const resetLong = `Delete a call's record, so that its next call runs again. Use it for a recorded answer that is
wrong, and for a broken record. First find out what the effect did, and undo it if it must not
happen twice. For a parked operation outside the database use ` + "`dedup resolve`" + `: deleting a
record undoes nothing at the provider.

The record is shown on stderr, and deleted only if it did not change since. With --created-at it
is deleted only if it has that time, as ` + "`dedup show`" + ` writes it. The same statement writes the
actor and the reason to the audit.

The exit code is 1 if there is no such record, if its call is in flight, or if it is another
record.`

// freeing has the flags of `dedup reset`.
type freeing struct {
	cli.Query
	reason, actor string
	lookedAt      time.Time // zero without --created-at
}

// Reset returns the command `dedup reset`.
func Reset() *cobra.Command {
	var f freeing
	cmd := f.Command(&cobra.Command{
		Use:     "reset SCOPE TOOL KEY --reason TEXT",
		Short:   "Free a record, so that its call runs again",
		Long:    resetLong,
		Example: `  dedup reset acme refund order-7 --created-at 2026-05-03T09:12:44.102394Z --reason 'INC-42: refund reversed by hand'`,
		Args:    cobra.ExactArgs(3),
		PreRunE: func(*cobra.Command, []string) error {
			if f.reason == "" {
				return exit.Usage("give a --reason")
			}
			return nil
		},
	}, "call", f.run)
	cmd.Flags().StringVar(&f.reason, "reason", "", "`text` for the audit")
	cmd.Flags().TimeVar(&f.lookedAt, "created-at", time.Time{}, []string{time.RFC3339Nano}, "`time` at which the record was created, as dedup show writes it")
	cli.AddActor(cmd, &f.actor)
	return cmd
}

func (f *freeing) run(cmd *cobra.Command, db *inspect.Database, args []string) error {
	call, err := db.Call(cmd.Context(), args[0], args[1], args[2])
	if err != nil {
		return cli.Explained(db, err)
	}
	call.Hide()
	if err := writeCall(cmd.ErrOrStderr(), call); err != nil {
		return err
	}
	if err := f.free(cmd.Context(), db, call); err != nil {
		return err
	}
	if !call.Audited {
		cmd.PrintErrln("The audit has no entry of this reset: there is no table tool_dedup_audit; `dedup migrate up` makes it.")
	}
	return f.Write(cmd, &freed{call.Scope, call.Tool, call.Key, call.CreatedAt, call.Audited}, []string{"freed: its next call runs"})
}

// free deletes the record that was shown, or returns the reason why not.
func (f *freeing) free(ctx context.Context, db *inspect.Database, c *inspect.Call) error {
	name := inspect.Name(c.Scope, c.Tool, c.Key)
	switch {
	case c.State == string(dedup.StateInFlight):
		return fmt.Errorf("%s is in flight; wait until it ends", name)
	case c.CreatedAt.IsZero():
		return fmt.Errorf("there is no record of %s: it did not run, or the record was deleted", name)
	case !f.lookedAt.IsZero() && !f.lookedAt.Equal(c.CreatedAt):
		return fmt.Errorf("%s is another record now: it was created at %s, not at %s; look at it again with `dedup show`",
			name, c.CreatedAt.Format(time.RFC3339Nano), f.lookedAt.UTC().Format(time.RFC3339Nano))
	}
	ctx, cancel := context.WithTimeout(ctx, db.Timeout)
	defer cancel()
	gone, err := db.D.Reset(ctx, c.Scope, c.Tool, c.Key, dedup.ChangeOptions{Reason: f.reason, Actor: f.actor, CreatedAt: c.CreatedAt})
	switch {
	case errors.Is(err, dedup.ErrInFlight):
		return fmt.Errorf("%s is in flight again; wait until it ends", name)
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("it is not known whether the record was freed; look with `dedup show`: %w", err)
	case err == nil && !gone:
		return fmt.Errorf("%s changed just now, and nothing was freed; look at it again with `dedup show`", name)
	}
	return err
}

// freed is the output of --json. Its fields are stable: later versions only add fields.
type freed struct {
	Scope     string    `json:"scope"`
	Tool      string    `json:"tool"`
	Key       string    `json:"key"`
	CreatedAt time.Time `json:"created_at"`
	Audited   bool      `json:"audited"`
}
