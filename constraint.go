package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// errTxEnded is the verdict of the guard on an effect that ended its transaction.
var errTxEnded = guard.ErrTxEnded

// explain turns a conflict into a read of the winning row, and keeps it apart from
// every other failure. The verdict is definite: nothing is committed, and the
// transaction has been rolled back.
//
// What failed first is no evidence. A lost race may show as a violation of
// tool_dedup's key, of a unique index of the application's own table, as a
// serialization failure, as a deadlock, or as whatever the effect made of one of
// them; and a trigger can raise what looks like a lost race. So the identity is
// looked up in a new statement, which sees all that has been committed:
//
//   - a record: it is the answer, whatever the failure was.
//   - none, the record's own statement waited for a lock, and a claim shows that a twin
//     has the row: it is waited for.
//   - none, and the fault is transient: a fresh attempt.
//   - none, and the record's own statement violated a unique constraint: a few
//     more attempts, then an ErrSchema.
//   - none: the failure is the call's own. It may be returned, because this
//     attempt held the identity throughout, so that no twin can have done
//     meanwhile what it could not.
func (g *group) explain(ctx context.Context, v verdict) verdict {
	v.clean()
	end := func(state state, err error) verdict {
		v.state, v.err = state, err
		return v
	}
	c := v.bad
	switch {
	case v.brokeTx():
		return end(broken, v.err)
	case ctx.Err() != nil:
		return end(failed, withContext(ctx, v.err))
	case c == nil:
		return g.explainAll(ctx, v)
	case v.raised && v.stale && !c.reprepared && !v.lost && mayBeStale(v.err):
		// Its statement may have been prepared before somebody changed a type, and is
		// prepared anew now. Sent once more, what it raises is its own.
		c.reprepared = true
		return end(again, v.err)
	}
	raised := wire.IsRaised(v.err)
	v.onError()
	look := (*table.Table).Peek
	if v.blocked > 0 {
		look = (*table.Table).TryClaim
	}
	seen, err := g.d.look(ctx, c, look)
	switch {
	case err == nil && seen.Found:
		c.waiter.waited += v.blocked
		v.rec = seen.Record
		return end(found, nil)
	case err == nil && seen.Busy && v.blocked > 0:
		c.waiter.waited += v.blocked
		return end(held, v.err)
	case err != nil && mayRetry(ctx, err):
		// It may be a lost race. A fresh attempt finds out.
		return end(retry, errors.Join(v.err, err))
	case err != nil:
		return end(failed, alongside(v.err, fmt.Errorf("looking up the record: %w", err)))
	}
	if g.together == nil { // else other identities may not be free
		v.free = true
	}
	v = end(v.own())
	if v.state == retry && !raised && g.together != nil {
		v.bad = nil // a connection that broke, say
	}
	return v
}

// explainAll is explain for a failure of nobody's, such as one of COMMIT: it may be a lost
// race of any.
func (g *group) explainAll(ctx context.Context, v verdict) verdict {
	rest := unsettled(g.calls)
	if len(g.lookUp(ctx, rest)) < len(rest) {
		v.state = found
		return v
	}
	v.state, v.err = v.own()
	return v
}

// clean takes the row's values out of an error of the record's own statement.
func (v *verdict) clean() {
	if v.atRecord {
		v.err = cleaned(v.err)
	}
}

// onError has the statement's author say what its error means.
func (v *verdict) onError() {
	if v.raised {
		v.err = byEffect(v.bad.stmt.explain(v.err))
	}
}

// brokeTx reports whether the effect had ended the transaction.
func (v *verdict) brokeTx() bool {
	return v.err == errTxEnded || v.atRecord && table.Tripped(v.err)
}

// own says what a failure means when no record explains it.
func (v *verdict) own() (state, error) {
	var final *finalError
	var notFinal *notFinalError
	err := v.err
	switch {
	case v.atRecord && table.IsConflict(err):
		return conflicted, err
	case v.readOnly:
		return failed, readOnlyTx(err)
	case wire.IsTransient(err), errors.Is(effectsOwn(err), ErrRestartTx), v.lost && wire.IsConnLost(err):
		return retry, err
	case wire.IsTxTimeout(err):
		return failed, invalidEffect(err, "sent nothing for longer than Options.IdleTimeout, or took longer than the server's transaction_timeout; keep slow calls out of it, or raise the limit")
	case v.atRecord:
		return failed, fmt.Errorf("dedup: writing the record: %w", cleaned(err))
	case errors.As(err, &notFinal):
		return failed, err
	case errors.Is(err, guard.ErrTxControl):
		return failed, misused(err)
	case errors.As(err, &final):
		return refused, final.err
	case v.bad != nil && v.bad.storeErrors && recordable(effectsOwn(err)):
		return refused, effectsOwn(err)
	case wire.SQLState(err) != "": // of a constraint that COMMIT has checked
		return failed, byEffect(err)
	default:
		return failed, err
	}
}

// recordable reports whether an effect's error may be stored as its answer where
// the call asks for that. What the library itself objected to, what a context or
// an operator ended, and the server's own faults may not.
func recordable(err error) bool {
	for _, own := range [...]error{
		ErrInvalid, ErrInFlight, ErrRestartTx, ErrSchema, ErrBroken, ErrOutcomeUnknown, ErrAttemptsExhausted, pgx.ErrTxClosed,
	} {
		if errors.Is(err, own) {
			return false
		}
	}
	if wire.IsContextError(err) || wire.IsConnLost(err) {
		return false
	}
	switch state := wire.SQLState(err); state[:min(2, len(state))] {
	case "25", "26", "57", "58", "F0", "XX": // transaction state, statements, intervention, system, internal
		return false
	}
	return true
}

// conflictError names what cannot be explained. A nil err is a row that nobody
// can see.
func conflictError(c *call, err error) *Error {
	const why = "writing the record conflicts, although there is no record of this identity: a trigger, a rule, row security or another unique index on tool_dedup"
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return c.answer(Error{Answer: ErrSchema, Err: fmt.Errorf(why+" (table %q, constraint %q): %w", server.TableName, server.ConstraintName, redacted(server))})
	}
	return c.answer(Error{Answer: ErrSchema, Err: errors.New(why)})
}

// noEffect is for records without a result.
func noEffect(context.Context, pgx.Tx) (string, error) { return "", nil }
