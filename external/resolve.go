package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
)

// Verdict is what a person says became of a parked operation. Its reason is kept in the
// operation's Note.
type Verdict struct {
	kind   string
	result any
	reason string
	actor  string
}

// By names who says so, for the audit. Without it that is the database's role.
func (v Verdict) By(actor string) Verdict {
	v.actor = actor
	return v
}

const (
	verdictHappened = "happened"
	verdictNever    = "never"
	verdictRefuse   = "refuse"
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

// verdict is a decision as a row stores it.
type verdict struct{ name, value string }

// Resolve stores a verdict on an operation as [Tools.Lookup] or [Tools.Parked] returned it,
// and carries it out, where the tool is registered here; else a process does that has it, at
// its next [Tools.Advance] or [Tools.Recover].
//
// The table tool_dedup_audit gets a line of it in the same statement. Where that table is
// missing the verdict is stored all the same; where the role may not write to it, nothing is
// stored.
//
// It is refused with [dedup.ErrInFlight] where the operation is running, or has changed since
// op was read, and with an [dedup.ErrInvalid] where it is done, or the verdict has no reason.
func (x *Tools) Resolve(ctx context.Context, op Operation, v Verdict) error {
	if err := v.check(op); err != nil {
		return err
	}
	if guard.Inside(ctx) {
		return errInside
	}
	v.reason, v.actor = cleaned(v.reason), cleaned(v.actor)
	r := &row{fence: op.Fence}
	r.Scope, r.Tool, r.Key = op.Scope, op.Tool, op.Key
	changed, err := x.store(ctx, r, op.State, v)
	if err != nil {
		return failed("resolving", err)
	}
	if changed == nil {
		return &dedup.Error{
			Answer: dedup.ErrInFlight, Scope: op.Scope, Tool: op.Tool, KeyHash: dedup.KeyHash(op.Key),
			Err: errors.New("somebody has acted since it was read; look it up again"),
		}
	}
	x.event(ctx, dedup.ExternalResolved, changed, "", v.kind+": "+v.reason)
	if x.tool(op.Tool) == nil {
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
		return invalid("Verdict", "is empty; use Happened, Never or Refuse")
	case v.reason == "":
		return invalid("Verdict", "has no reason")
	case op.State == None:
		return invalid("Operation", "does not exist")
	case op.State == Done:
		return invalid("Operation", "is answered already")
	}
	return nil
}

// store stores a verdict on an operation in a state that it has as long as its fence is the
// same.
func (x *Tools) store(ctx context.Context, r *row, before State, v Verdict) (*row, error) {
	said := v.reason
	if v.kind == verdictHappened {
		text, err := json.Marshal(v.result)
		if err != nil {
			return nil, &dedup.InvalidError{What: "call", Field: "Verdict", Reason: "has a result that cannot be encoded", Err: err}
		}
		if t := x.tool(r.Tool); t != nil {
			if text, err = t.verdict(text); err != nil {
				return nil, &dedup.InvalidError{What: "call", Field: "Verdict", Reason: "has a result that is not the tool's", Err: err}
			}
		}
		said = string(text)
	}
	if err := x.findEngine(ctx, x.pool); err != nil {
		return nil, err
	}
	sql, args := x.sql().verdict, append(mine(r), v.reason, v.kind, said)
	if v.kind == verdictNever {
		sql, args = x.sql().never, append(mine(r), v.reason)
	}
	audited := append(slices.Clip(args), v.actor, string(before))
	changed, err := one(x.rows(ctx, sql.audited, audited...))
	if table.CannotAudit(err) {
		changed, err = one(x.rows(ctx, sql.plain, args...))
	}
	return changed, table.MayNotAudit(err)
}

// carryOut does what a person has said.
func (x *Tools) carryOut(ctx context.Context, a *act, at *attempt) {
	said := verdict{value(at.row.verdict), value(at.row.verdictValue)}
	if said.name == verdictHappened {
		out, err := at.t.verdict(json.RawMessage(said.value))
		if err != nil { // no caller could read it
			a.err = x.parkUnrecorded(ctx, at, "", verdict{}, err)
			return
		}
		x.record(ctx, a, at, out)
		return
	}
	var audit *time.Duration
	if at.t.find != nil && at.earlier != nil {
		pause := x.untilAudit(at.t)
		audit = &pause
	}
	x.recordRefusal(ctx, a, at, dedup.Final(errors.New(said.value)), audit)
}
