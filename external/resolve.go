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

// Verdict is an operator's decision on an operation. Its reason is stored in the operation's Note.
type Verdict struct {
	kind      string
	result    any
	reason    string
	actor     string
	overrules bool
}

// By sets the actor's name for the audit. Default: the database's role.
func (v Verdict) By(actor string) Verdict {
	v.actor = actor
	return v
}

// Overruling returns v as one that replaces a verdict that is not carried out yet; the audit has
// both. If a process is carrying out the earlier one, that one may still be recorded. If Never
// overrules a Happened that was true, the effect happens again.
func (v Verdict) Overruling() Verdict {
	v.overrules = true
	return v
}

// VerdictError is the error of [Tools.Resolve] for an operation whose verdict is not carried out
// yet, even if the two are the same. Nothing is stored. A process that has the tool carries the
// verdict out. [Verdict.Overruling] replaces it.
type VerdictError struct {
	Operation Operation // has the Verdict, and a Note with its actor and reason
}

// Error implements error.
func (e *VerdictError) Error() string {
	return fmt.Sprintf("dedup: tool %q: the operation has a verdict: %s", e.Operation.Tool, e.Operation.Decision())
}

// Decision describes the operation's verdict: its actor, reason and time. It is empty if there is
// none.
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

// Happened means that the effect took place. result is recorded as the tool's Out and Finish runs.
// A [json.RawMessage] is the JSON of an Out.
func Happened(result any, reason string) Verdict {
	return Verdict{kind: verdictHappened, result: result, reason: reason}
}

// Never means that the effect did not happen. The operation is attempted again with the same
// provider's key. If the effect did happen, it happens twice; with Find that is reported.
func Never(reason string) Verdict { return Verdict{kind: verdictNever, reason: reason} }

// Refuse means that the effect did not happen and must not. reason is recorded as a refusal and
// Refused runs. Refuse cancels a pending operation.
func Refuse(reason string) Verdict { return Verdict{kind: verdictRefuse, reason: reason} }

// Cleared means that the further effects of an operation that happened twice, those in its Twice,
// were taken back at the provider. The operation is no longer listed, and its answer stays. If
// another effect was found since op was read, nothing is stored. If a later look-up finds one of
// them again, the operation is listed again.
func Cleared(reason string) Verdict { return Verdict{kind: verdictCleared, reason: reason} }

// verdict is a verdict as a row stores it.
type verdict struct{ name, value string }

// Resolve stores a verdict on op, which [Tools.Status] or [Tools.Parked] returned. If the tool is
// registered here, Resolve also carries the verdict out. Otherwise a process that has the tool does
// so, at its next [Tools.Advance] or [Tools.Recover]. The operation must be parked, pending, or
// running without an attempt that may still send.
//
// If several verdicts are given on one operation, the first is stored and the others return a
// *[VerdictError] until it is carried out. If an attempt succeeds before Never or Refuse is carried
// out, its success is recorded in place of the verdict.
//
// The same statement writes a line of the table tool_dedup_audit. If that table does not exist, the
// verdict is stored without the line. If the role may not write to it, nothing is stored.
//
// Resolve returns [dedup.ErrInFlight] if an attempt is running or the operation has changed since
// op was read. It returns [dedup.ErrInvalid] if the operation is done or the verdict has no reason.
// [Cleared] is only for an operation that is done.
func (x *Tools) Resolve(ctx context.Context, op Operation, v Verdict) error {
	if err := v.check(op); err != nil {
		return err
	}
	if err := x.usable(ctx); err != nil {
		return err
	}
	changed, err := x.store(ctx, op, v)
	if err != nil {
		return wrap("resolving", err)
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
	case op.State == StateNone:
		return invalid("Operation", "does not exist")
	case v.kind == verdictCleared && (op.State != StateDone || op.Twice == ""):
		return invalid("Operation", "has no answer, or has not happened twice")
	case op.State == StateDone && v.kind != verdictCleared:
		return invalid("Operation", "is answered already")
	case op.Verdict != "" && !v.overrules:
		return &VerdictError{op}
	}
	return nil
}

// notStored returns the error of a verdict that the statement did not store.
func (x *Tools) notStored(ctx context.Context, op Operation) error {
	now, _, err := x.lookup(ctx, table.Identity{Scope: op.Scope, Tool: op.Tool, Key: op.Key})
	if err == nil && now.Verdict != "" {
		return &VerdictError{now}
	}
	reason := "the operation has changed since it was read; read it again"
	if now.State == StateRunning && now.Fence == op.Fence {
		reason = "an attempt is under way; wait until it has ended"
	}
	return &dedup.Error{
		Kind: dedup.ErrInFlight, Scope: op.Scope, Tool: op.Tool, KeyHash: dedup.KeyHash(op.Key), Err: errors.Join(errors.New(reason), err),
	}
}

// store stores a verdict if the operation is unchanged since it was read. Otherwise it returns nil.
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
			if text, err = t.checkVerdict(text); err != nil {
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

// rowsInTx is rows for a statement that may wait for another session's lock. If ctx ends, the
// statement is cancelled on the server, but its COMMIT is not.
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

// carryOut records a verdict: an operator's, or the outcome that an earlier act could not record.
//
// In the model: JUDGING in worker.pml.
func (x *Tools) carryOut(ctx context.Context, a *act, h *held) {
	said := verdict{value(h.row.verdict), value(h.row.verdictValue)}
	if said.name == verdictHappened {
		out, err := h.t.checkVerdict(json.RawMessage(said.value))
		kept := strings.HasPrefix(value(h.row.note), unrecorded)
		switch {
		case err != nil && kept: // for the release of its attempt; nothing was recorded, so tries stays
			a.err = x.change(ctx, h, x.sql.postpone, x.uncountedPause(h.row), "", false)
			return
		case err != nil: // no call could decode the result, so an operator can decide again
			a.err = x.parkUnrecorded(ctx, h, "", verdict{}, err)
			return
		}
		h.verdictFence = &h.row.fence
		x.record(ctx, a, h, out)
		return
	}
	x.recordRefusal(ctx, a, h, dedup.Final(refusalOf(h.row)), false)
}
