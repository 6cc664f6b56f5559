package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const resolveLong = `Store a person's verdict on a parked operation, or on one without an answer; cancel a pending
one; or confirm that a doubled one was corrected. A process that has the tool carries the verdict
out: at once if it runs Tools.Recover, else at the next call.

  --happened JSON   it happened: JSON is recorded as the tool's result
  --never           it certainly did not happen: it is attempted again, with the same
                    provider key
  --refuse          it did not happen and must not: the reason is recorded as a refusal
  --cleared         it happened twice, and the effects listed under "twice" were undone at
                    the provider: it is no longer listed

For a broken record --happened records its result. Give the record's --created-at, as ` + "`dedup show`" + `
writes it, instead of --fence. Its callers get that result from then on.

Look at the provider's books first. A wrong verdict cannot be undone: after a wrong --never or
--refuse the effect may happen twice.

--fence is the number that ` + "`dedup parked`" + ` lists: nothing is stored if the operation changed
since. Without it the operation is shown on stderr, and nothing is stored. The actor is written
to the audit, which ` + "`dedup audit`" + ` lists.

A stored verdict stays: a second one is refused, with the name of who decided and the time.
--overrule replaces it until it is carried out, and the audit records that.

The exit code is 1 if there is no such operation, if an attempt is in progress, or if the operation
has an answer, has a verdict, or changed.`

// resolution has the arguments and flags of `dedup resolve`.
type resolution struct {
	cli.Query
	scope, tool, key string
	happened         string
	never, cleared   bool
	overrules        bool
	reason, actor    string
	fence            int64     // zero without --fence
	createdAt        time.Time // of a broken record; zero without --created-at

	verdict external.Verdict
	follows string // the message after the verdict is stored
}

// Resolve returns the command `dedup resolve`.
func Resolve() *cobra.Command {
	var r resolution
	cmd := r.Command(&cobra.Command{
		Use:   "resolve SCOPE TOOL KEY --fence N (--happened JSON | --never | --refuse | --cleared) --reason TEXT",
		Short: "Decide what happened to a parked effect",
		Long:  resolveLong,
		Example: `  dedup resolve acme refund order-7 --fence 42 --happened '{"id":"re_1"}' --reason 'seen in the dashboard'
  dedup resolve acme refund order-8 --fence 47 --never --reason 'no charge of this key in the export of May'`,
		Args:    cobra.ExactArgs(3),
		PreRunE: r.check,
	}, "operation", r.run)
	set := cmd.Flags()
	set.StringVar(&r.happened, "happened", "", "it happened, with this `JSON` as the tool's result")
	set.BoolVar(&r.never, "never", false, "it did not happen: attempt it again")
	set.Bool("refuse", false, "it did not happen, and must not")
	set.BoolVar(&r.overrules, "overrule", false, "replace a verdict that was not carried out yet")
	set.BoolVar(&r.cleared, "cleared", false, "the effects under \"twice\" were undone")
	cmd.MarkFlagsOneRequired("happened", "never", "refuse", "cleared")
	cmd.MarkFlagsMutuallyExclusive("happened", "never", "refuse", "cleared")
	set.StringVar(&r.reason, "reason", "", "`text` for the note and the audit; with --refuse callers get it too")
	cli.AddActor(cmd, &r.actor)
	set.TimeVar(&r.createdAt, "created-at", time.Time{}, []string{time.RFC3339Nano}, "for a broken record: the `time` at which it was created, as dedup show writes it")
	set.Int64Var(&r.fence, "fence", 0, "the operation's fence `number`, as dedup parked lists it")
	return cmd
}

// check reads the verdict. The error is an [*exit.UsageError].
func (r *resolution) check(cmd *cobra.Command, args []string) error {
	r.scope, r.tool, r.key = args[0], args[1], args[2]
	r.follows = "stored: a process that has the tool records it"
	happened := cmd.Flags().Changed("happened")
	switch {
	case r.reason == "":
		return exit.Usage("give a --reason: how you know")
	case happened && (!utf8.ValidString(r.happened) || !json.Valid([]byte(r.happened))):
		return exit.Usage("--happened: %q is not JSON; give the tool's result, such as '{\"id\":\"re_1\"}'", r.happened)
	case happened:
		r.verdict = external.Happened(json.RawMessage(r.happened), r.reason)
	case r.never:
		r.verdict, r.follows = external.Never(r.reason), "stored: it is pending, and a process that has the tool attempts it again"
	case r.cleared:
		r.verdict, r.follows = external.Cleared(r.reason), "stored: it is no longer listed"
	default:
		r.verdict = external.Refuse(r.reason)
	}
	if r.overrules {
		r.verdict = r.verdict.Overruling()
	}
	return nil
}

func (r *resolution) run(cmd *cobra.Command, db *inspect.Database, _ []string) error {
	op, err := r.read(cmd.Context(), db)
	switch {
	case err != nil:
		return cli.Explained(db, err)
	case op.State == external.StateNone:
		return r.mend(cmd, db)
	}
	shown := inspect.OperationOf(&op)
	if !cmd.Flags().Changed("fence") {
		if err := cli.WriteText(cmd.ErrOrStderr(), operationText(&shown)); err != nil {
			return err
		}
		return exit.Usage("compare the operation above with the provider's books, then give --fence %d", op.Fence)
	}
	if err := r.store(cmd.Context(), db, op); err != nil {
		return err
	}
	if r.JSON {
		if op, err = r.read(cmd.Context(), db); err != nil {
			return fmt.Errorf("the verdict is stored, but the operation cannot be read: %w", err)
		}
		shown = inspect.OperationOf(&op)
	}
	return r.Write(cmd, &shown, []string{r.follows})
}

// read returns the operation that the command line names.
func (r *resolution) read(ctx context.Context, db *inspect.Database) (external.Operation, error) {
	ctx, cancel := context.WithTimeout(ctx, db.Timeout)
	defer cancel()
	status, err := db.Tools.Status(ctx, r.scope, r.tool, r.key)
	return status.Operation, err
}

// mend records the result of a broken record.
func (r *resolution) mend(cmd *cobra.Command, db *inspect.Database) error {
	name := inspect.Name(r.scope, r.tool, r.key)
	call, err := db.Call(cmd.Context(), r.scope, r.tool, r.key)
	switch {
	case err != nil:
		return cli.Explained(db, err)
	case call.State != string(dedup.StateBroken):
		return fmt.Errorf("there is no operation %s and no broken record: nothing was sent, or the record was deleted", name)
	case !cmd.Flags().Changed("happened"):
		return exit.Usage("%s is a broken record: record its result with --happened, or delete it with `dedup reset`", name)
	case r.createdAt.IsZero():
		if err := writeCall(cmd.ErrOrStderr(), call); err != nil {
			return err
		}
		return exit.Usage("find out what the effect of the call above did, then give --created-at %s", call.CreatedAt.Format(time.RFC3339Nano))
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), db.Timeout)
	defer cancel()
	done, err := db.D.Resolve(ctx, r.scope, r.tool, r.key, json.RawMessage(r.happened), dedup.ChangeOptions{Reason: r.reason, Actor: r.actor, CreatedAt: r.createdAt})
	switch {
	case err != nil:
		return err
	case !done:
		return fmt.Errorf("%s changed just now, and nothing was recorded; look at it again with `dedup show`", name)
	}
	return r.Write(cmd, &freed{call.Scope, call.Tool, call.Key, call.CreatedAt, call.Audited}, []string{"recorded: its callers get the result"})
}

// store stores the verdict on the operation, or returns the reason why not.
func (r *resolution) store(ctx context.Context, db *inspect.Database, op external.Operation) error {
	name := inspect.Name(op.Scope, op.Tool, op.Key)
	decided := func(op external.Operation) error {
		return fmt.Errorf("%s has a verdict: %s; nothing is stored. --overrule with --fence %d replaces it", name, op.Decision(), op.Fence)
	}
	switch {
	case r.cleared && (op.State != external.StateDone || op.Twice == ""):
		return fmt.Errorf("%s did not happen twice, or has no answer yet", name)
	case op.State == external.StateDone && !r.cleared:
		return fmt.Errorf("%s already has an answer, which cannot change", name)
	case op.Verdict != "" && !r.overrules:
		return decided(op)
	case op.Fence != r.fence:
		return fmt.Errorf("%s changed: its fence is %d now, not %d; look at it again with `dedup parked`", name, op.Fence, r.fence)
	}
	ctx, cancel := context.WithTimeout(ctx, db.Timeout)
	defer cancel()
	err := db.Tools.Resolve(ctx, op, r.verdict.By(r.actor))
	first, isDecided := errors.AsType[*external.VerdictError](err)
	switch {
	case isDecided:
		return decided(first.Operation)
	case errors.Is(err, dedup.ErrInFlight) && op.State == external.StateRunning:
		return fmt.Errorf("%s is running: an attempt may be in progress; wait until it ends and look again", name)
	case errors.Is(err, dedup.ErrInFlight):
		return fmt.Errorf("%s changed just now, and nothing was stored; look at it again with `dedup parked`", name)
	case errors.Is(err, dedup.ErrInvalid):
		return exit.Usage("%w", err)
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("it is not known whether the verdict was stored; look with `dedup parked`: %w", err)
	}
	return err
}
