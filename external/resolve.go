package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Verdict is what a person says became of a parked operation. Its reason is kept in the
// operation's Note.
type Verdict struct {
	kind      string
	result    any
	reason    string
	actor     string
	overrules bool
}

// By names who says so, for the audit. Without it that is the database's role.
func (v Verdict) By(actor string) Verdict {
	v.actor = actor
	return v
}

// Overruling makes it replace another verdict that is not carried out. Where that is being
// carried out in this moment, it may be too late: then what was said first is recorded. A
// verdict of Never that overrules Happened has the effect happen again where Happened was true.
// The audit says what is overruled.
func (v Verdict) Overruling() Verdict {
	v.overrules = true
	return v
}

// VerdictError is the answer of [Tools.Resolve] for an operation that has a verdict already,
// which no process has carried out yet: nothing is stored. It is also for one that says the
// same. A verdict is carried out by a process that has the tool, and replaced only by one that
// is [Verdict.Overruling].
type VerdictError struct {
	Operation Operation // with the Verdict, and a Note that says who has given it
}

// Error implements error.
func (e *VerdictError) Error() string {
	return fmt.Sprintf("dedup: tool %q: the operation has a verdict: %s", e.Operation.Tool, e.Operation.Decision())
}

// Decision says which verdict an operation has, who has given it, why and when; empty where it
// has none.
func (op Operation) Decision() string {
	if op.Verdict == "" {
		return ""
	}
	return fmt.Sprintf("%s (%s, at %s), not carried out yet", op.Verdict, op.Note, op.ChangedAt.UTC().Format(time.RFC3339))
}

const (
	verdictHappened = "happened"
	verdictNever    = "never"
	verdictRefuse   = "refuse"
	verdictCleared  = "cleared"
)

// Happened says that the effect took place: result is recorded as the tool's Out, or as its JSON where it
// is a [json.RawMessage], and Finish is run.
func Happened(result any, reason string) Verdict {
	return Verdict{kind: verdictHappened, result: result, reason: reason}
}

// Never says that it did not happen: it is attempted again, with the same provider's key.
// If that was wrong, it happens twice; where there is Find, that is reported.
func Never(reason string) Verdict { return Verdict{kind: verdictNever, reason: reason} }

// Refuse says that it did not happen and shall not: reason is recorded as a refusal, and
// Refused is run. Of a pending operation it is how to cancel it.
func Refuse(reason string) Verdict { return Verdict{kind: verdictRefuse, reason: reason} }

// Cleared says of an operation that happened twice that the further effects, those of its Twice, were
// taken back at the provider: it is listed no longer. Its answer stays. Nothing is stored where a
// further effect has been found since, and a look that finds one of them again lists it again.
func Cleared(reason string) Verdict { return Verdict{kind: verdictCleared, reason: reason} }

// verdict is a decision as a row stores it.
type verdict struct{ name, value string }

// Resolve stores a verdict on an operation as [Tools.Status] or [Tools.Parked] returned it,
// and carries it out, where the tool is registered here; else a process does that has it, at
// its next [Tools.Advance] or [Tools.Recover]. The operation is parked, or pending, or it is
// running and no attempt of it may still send: those that go on without an answer can be
// resolved before they are parked.
//
// Of any number of verdicts on one operation as it was read the first is stored. One that is
// stored stays, until it is carried out: the others are a *[VerdictError].
//
// The table tool_dedup_audit gets a line of it in the same statement. Where that table is
// missing the verdict is stored all the same; where the role may not write to it, nothing is
// stored.
//
// It is refused with [dedup.ErrInFlight] where an attempt is under way, or the operation has changed since
// op was read, and with an [dedup.ErrInvalid] where it is done, or the verdict has no reason. Only
// [Cleared] is for one that is done, and is refused of any other.
func (x *Tools) Resolve(ctx context.Context, op Operation, v Verdict) error {
	if err := v.check(op); err != nil {
		return err
	}
	if err := x.usable(ctx); err != nil {
		return err
	}
	changed, err := x.store(ctx, op, v)
	if err != nil {
		return failed("resolving", err)
	}
	if changed == nil {
		return x.notStored(ctx, op)
	}
	x.event(ctx, EventResolved, changed, "", v.kind+": "+v.reason)
	if v.kind == verdictCleared || x.tool(op.Tool) == nil {
		return nil
	}
	_, err = x.Advance(ctx, op.Scope, op.Tool, op.Key)
	return err
}

func (v Verdict) check(op Operation) error {
	invalid := func(field, format string, args ...any) error {
		return &dedup.InvalidError{What: "call", Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case v.kind == "":
		return invalid("Verdict", "is empty; use Happened, Never, Refuse or Cleared")
	case v.reason == "":
		return invalid("Verdict", "has no reason")
	case op.State == None:
		return invalid("Operation", "does not exist")
	case v.kind == verdictCleared && (op.State != Done || op.Twice == ""):
		return invalid("Operation", "has no answer, or has not happened twice")
	case op.State == Done && v.kind != verdictCleared:
		return invalid("Operation", "is answered already")
	case op.Verdict != "" && !v.overrules:
		return &VerdictError{op}
	}
	return nil
}

// notStored says why a verdict is not stored.
func (x *Tools) notStored(ctx context.Context, op Operation) error {
	now, _, err := x.lookup(ctx, table.Identity{Scope: op.Scope, Tool: op.Tool, Key: op.Key})
	if err == nil && now.Verdict != "" {
		return &VerdictError{now}
	}
	reason := "somebody has acted since it was read; look it up again"
	if now.State == Running && now.Fence == op.Fence {
		reason = "an attempt is under way; wait until it has ended"
	}
	return &dedup.Error{
		Answer: dedup.ErrInFlight, Scope: op.Scope, Tool: op.Tool, KeyHash: dedup.KeyHash(op.Key), Err: errors.Join(errors.New(reason), err),
	}
}

// store stores a verdict on an operation that is as it was read. It returns nil where it is not.
//
// In the model: the person in world.pml.
func (x *Tools) store(ctx context.Context, op Operation, v Verdict) (*row, error) {
	v.reason, v.actor = cleaned(v.reason), cleaned(v.actor)
	said, audit := v.reason, v.reason
	if op.Verdict != "" {
		audit = fmt.Sprintf("%s (overrules %s: %s)", v.reason, op.Verdict, op.Note)
	}
	if v.kind == verdictHappened {
		text, err := json.Marshal(v.result)
		if err != nil {
			return nil, &dedup.InvalidError{What: "call", Field: "Verdict", Reason: "has a result that cannot be encoded", Err: err}
		}
		if t := x.tool(op.Tool); t != nil {
			if text, err = t.verdict(text); err != nil {
				return nil, &dedup.InvalidError{What: "call", Field: "Verdict", Reason: "has a result that is not the tool's", Err: err}
			}
		}
		said = string(text)
	}
	sql, args := x.sql.verdict, []any{op.Scope, op.Tool, op.Key, op.Fence, v.reason, v.kind, said, v.actor, v.overrules}
	audited := append(slices.Clip(args), string(op.State), audit)
	if v.kind == verdictCleared {
		sql, args = x.sql.cleared, []any{op.Scope, op.Tool, op.Key, op.Fence, v.reason, op.Twice}
		audited = append(slices.Clip(args), v.actor, string(op.State))
	}
	changed, err := one(x.rowsInTx(ctx, sql.audited, audited...))
	if table.CannotAudit(err) {
		changed, err = one(x.rowsInTx(ctx, sql.plain, args...))
	}
	return changed, table.MayNotAudit(err)
}

// rowsInTx is rows for a statement that may wait for somebody else's lock: the end of ctx cancels it on the server, and
// not its COMMIT.
func (x *Tools) rowsInTx(ctx context.Context, sql string, args ...any) (all []*row, err error) {
	conn, err := wire.Acquire(ctx, x.pool)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	err = wire.InTx(ctx, conn.Conn(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, x.d.Options().CommitTimeout, func(tx pgx.Tx) (err error) {
		all, err = collect(tx.Query(ctx, sql, args...))
		return err
	})
	return all, err
}

// carryOut does what a person has said, or what an earlier act could not record.
//
// In the model: JUDGING in worker.pml.
func (x *Tools) carryOut(ctx context.Context, a *act, at *attempt) {
	said := verdict{value(at.row.verdict), value(at.row.verdictValue)}
	if said.name == verdictHappened {
		out, err := at.t.verdict(json.RawMessage(said.value))
		if err != nil { // no caller could read it
			if !strings.HasPrefix(value(at.row.note), unrecorded) {
				said = verdict{} // a person may say it otherwise; what an attempt has found out is kept for the release that wrote it
			}
			a.err = x.parkUnrecorded(ctx, at, "", said, err)
			return
		}
		at.told = &at.row.fence
		x.record(ctx, a, at, out)
		return
	}
	x.recordRefusal(ctx, a, at, dedup.Final(errors.New(said.value)), false)
}
