package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
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
	search
	opts                     dedup.Options
	reason, actor, createdAt string
}

// ResetCommand returns the command `dedup reset`.
func ResetCommand() *cobra.Command {
	var q cli.Query
	var f freeing
	cmd := &cobra.Command{
		Use:     "reset SCOPE TOOL KEY --reason TEXT",
		Short:   "Free a record, so that its call runs again",
		Long:    resetLong,
		Example: `  dedup reset acme refund order-7 --created-at 2026-05-03T09:12:44.102394Z --reason 'INC-42: refund reversed by hand'`,
		Args:    cli.IdentityArgs("call"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.scope, f.tool, f.key = args[0], args[1], args[2]
			return f.run(cmd, &q)
		},
	}
	q.AddFlags(cmd, "call")
	cli.AddOrder(cmd, &f.opts)
	cmd.Flags().StringVar(&f.reason, "reason", "", "`text` that says why; kept in the audit")
	cmd.Flags().StringVar(&f.createdAt, "created-at", "", "`time` at which the record was created, as dedup show writes it")
	cli.AddActor(cmd, &f.actor)
	return cmd
}

// audited is a tracer that keeps whether the reset was written down.
type audited struct{ written bool }

func (a *audited) TraceReset(_ context.Context, data dedup.ResetData) { a.written = data.Audited }

func (f *freeing) run(cmd *cobra.Command, q *cli.Query) error {
	var lookedAt time.Time
	if f.reason == "" {
		return exit.Usage("why is it freed? Give a --reason")
	}
	if f.createdAt != "" {
		var err error
		if lookedAt, err = time.Parse(time.RFC3339Nano, f.createdAt); err != nil {
			return exit.Usage("--created-at: %q is no time such as 2026-05-03T09:12:44.102394Z", f.createdAt)
		}
	}
	var trace audited
	f.opts.Tracer = &trace
	return q.With(cmd, &f.opts, func(ctx context.Context, db *cli.Database) error {
		k, err := look(ctx, db, &f.search)
		if err != nil {
			return err
		}
		k.Result, k.Refusal = nil, ""
		if err := k.WriteText(cmd.ErrOrStderr()); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		if err := f.acceptable(k, lookedAt); err != nil {
			return err
		}
		if err := f.free(ctx, db, k.CreatedAt); err != nil {
			return err
		}
		if !trace.written {
			cmd.PrintErrln("There is no table tool_dedup_audit: nothing says who freed it; `dedup migrate up` makes it.")
		}
		return q.Write(cmd.OutOrStdout(), &freed{k.Scope, k.Tool, k.Key, k.CreatedAt, trace.written})
	})
}

// acceptable says why a record is not freed.
func (f *freeing) acceptable(k *known, lookedAt time.Time) error {
	name := cli.Name(k.Scope, k.Tool, k.Key)
	switch {
	case k.State == dedup.StateInFlight.String():
		return fmt.Errorf("%s is in flight: wait until it has ended", name)
	case k.CreatedAt.IsZero():
		return fmt.Errorf("there is no record of %s: it has not run, or is forgotten", name)
	case !lookedAt.IsZero() && !lookedAt.Equal(k.CreatedAt):
		return fmt.Errorf("%s is another record by now: it was created at %s, and not at %s; look at it again with `dedup show`",
			name, k.CreatedAt.Format(time.RFC3339Nano), lookedAt.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

func (f *freeing) free(ctx context.Context, db *cli.Database, createdAt time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, db.Timeout)
	defer cancel()
	gone, err := db.D.Reset(ctx, f.scope, f.tool, f.key, dedup.ResetOptions{Reason: f.reason, Actor: f.actor, CreatedAt: createdAt})
	switch {
	case errors.Is(err, dedup.ErrInFlight):
		return fmt.Errorf("%s is in flight since a moment ago: wait until it has ended", cli.Name(f.scope, f.tool, f.key))
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("whether it is freed is not known; look with `dedup show`: %w", err)
	case err != nil:
		return err
	case !gone:
		return fmt.Errorf("%s has changed in this moment, and nothing is freed; look at it again with `dedup show`", cli.Name(f.scope, f.tool, f.key))
	}
	return nil
}

// freed is what --json writes. Its fields are stable: more may come, none goes.
type freed struct {
	Scope     string    `json:"scope"`
	Tool      string    `json:"tool"`
	Key       string    `json:"key"`
	CreatedAt time.Time `json:"created_at"`
	Audited   bool      `json:"audited"`
}

// WriteText implements [cli.Entry].
func (f *freed) WriteText(out io.Writer) error {
	_, err := fmt.Fprintln(out, "freed: its next call runs")
	return err
}
