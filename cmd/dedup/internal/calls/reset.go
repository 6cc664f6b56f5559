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

const resetLong = `Free a call's identity, so that its next call runs again: for a recorded answer that is wrong,
and for a broken record. First make sure what the effect did, and undo it where it must not
happen twice. Of a parked operation outside of the database say with ` + "`dedup resolve`" + ` what became
of it: a record that is freed takes nothing back at the provider.

The record is shown on stderr, and freed as it was read. With --created-at it is freed only
where it is the one that was looked at: the time is that of ` + "`dedup show`" + `. Who did it and why
is written to the audit in the same statement.

The exit code is 1 where there is no record, where it is in flight, or another one.`

// freeing is what the command line says.
type freeing struct {
	cli.Query
	reason, actor string
	lookedAt      time.Time // zero where --created-at is not given
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
				return exit.Usage("why is it freed? Give a --reason")
			}
			return nil
		},
	}, "call", f.run)
	cmd.Flags().StringVar(&f.reason, "reason", "", "`text` that says why; kept in the audit")
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
		cmd.PrintErrln("There is no table tool_dedup_audit: nothing says who freed it; `dedup migrate up` makes it.")
	}
	return f.Write(cmd, &freed{call.Scope, call.Tool, call.Key, call.CreatedAt, call.Audited}, []string{"freed: its next call runs"})
}

// free frees the record that was looked at, or says why not.
func (f *freeing) free(ctx context.Context, db *inspect.Database, c *inspect.Call) error {
	name := inspect.Name(c.Scope, c.Tool, c.Key)
	switch {
	case c.State == string(dedup.StateInFlight):
		return fmt.Errorf("%s is in flight: wait until it has ended", name)
	case c.CreatedAt.IsZero():
		return fmt.Errorf("there is no record of %s: it has not run, or is forgotten", name)
	case !f.lookedAt.IsZero() && !f.lookedAt.Equal(c.CreatedAt):
		return fmt.Errorf("%s is another record by now: it was created at %s, and not at %s; look at it again with `dedup show`",
			name, c.CreatedAt.Format(time.RFC3339Nano), f.lookedAt.UTC().Format(time.RFC3339Nano))
	}
	ctx, cancel := context.WithTimeout(ctx, db.Timeout)
	defer cancel()
	gone, err := db.D.Reset(ctx, c.Scope, c.Tool, c.Key, dedup.ResetOptions{Reason: f.reason, Actor: f.actor, CreatedAt: c.CreatedAt})
	switch {
	case errors.Is(err, dedup.ErrInFlight):
		return fmt.Errorf("%s is in flight since a moment ago: wait until it has ended", name)
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("whether it is freed is not known; look with `dedup show`: %w", err)
	case err == nil && !gone:
		return fmt.Errorf("%s has changed in this moment, and nothing is freed; look at it again with `dedup show`", name)
	}
	return err
}

// freed is what --json writes. Its fields are stable: more may come, none goes.
type freed struct {
	Scope     string    `json:"scope"`
	Tool      string    `json:"tool"`
	Key       string    `json:"key"`
	CreatedAt time.Time `json:"created_at"`
	Audited   bool      `json:"audited"`
}
