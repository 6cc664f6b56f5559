package dedup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// failure is a definite failure of an attempt that had its identity: whatever
// it is, nothing is committed, and the transaction has been rolled back.
type failure struct {
	err error
	// atRecord tells that writing the record raised it.
	atRecord bool
	// lost tells that the connection was closed when the effect returned.
	lost bool
}

// resolve turns a conflict into a read of the winning row, and tells it from
// every other failure.
//
// What failed first is no evidence. A lost race may show as a violation of
// tool_dedup's key, of a unique index of the application's own table, as a
// serialization failure, as a deadlock, or as whatever the effect made of one of
// them; and a trigger can raise what looks like a lost race. So the identity is
// looked up in a new statement, which sees all that has been committed:
//
//   - a record: it is the answer, whatever the failure was.
//   - none, and the fault is transient: a fresh attempt.
//   - none, and the record's own statement violated a unique constraint: a few
//     more attempts, then a *ConflictError.
//   - none: the failure is the call's own. It may be returned, because this
//     attempt held the identity throughout, so that no twin can have done
//     meanwhile what it could not.
func (d *Deduper) resolve(ctx context.Context, req *request, a attempt) attempt {
	f := a.failure.cleaned()
	end := func(state attemptState, err error) attempt {
		a.state, a.err = state, err
		return a
	}
	switch {
	case f.brokeTx():
		return end(attemptBroken, f.err)
	case ctx.Err() != nil:
		return end(attemptFailed, withContext(ctx, f.err))
	}

	seen, err := d.look(ctx, req, d.order.peek)
	switch {
	case err == nil && seen.found:
		d.traceConflict(ctx, req, f.err, true)
		a.rec = seen.rec
		return end(attemptFound, nil)
	case err != nil && d.mayRetry(ctx, err):
		// Not to be told from a lost race yet; a fresh attempt will.
		return end(attemptRetry, errors.Join(f.err, err))
	case err != nil:
		return end(attemptFailed, fmt.Errorf("%w (and looking up the record: %w)", f.err, err))
	}
	a.alone = true
	return end(f.ownState(req))
}

// cleaned takes the row's values out of an error of the record's own statement.
func (f failure) cleaned() failure {
	if f.atRecord {
		f.err = cleaned(f.err)
	}
	return f
}

// brokeTx tells whether the effect had ended the transaction.
func (f failure) brokeTx() bool { return f.err == errTxGone || f.atRecord && tripped(f.err) }

// ownState says what a failure means when no record explains it.
func (f failure) ownState(req *request) (attemptState, error) {
	var final *finalError
	var notFinal *notFinalError
	switch {
	case f.atRecord && isConflict(f.err):
		return attemptConflict, f.err
	case IsTransient(f.err), errors.Is(f.err, ErrRestartTx), f.lost && isConnectionLost(f.err):
		return attemptRetry, f.err
	case isTxTimeout(f.err):
		return attemptFailed, fmt.Errorf("%w: %w", ErrEffectIdle, f.err)
	case f.atRecord:
		return attemptFailed, fmt.Errorf("dedup: writing the record: %w", cleaned(f.err))
	case errors.As(f.err, &notFinal):
		return attemptFailed, f.err
	case errors.Is(f.err, ErrTxControl):
		return attemptFailed, f.err
	case errors.As(f.err, &final):
		return attemptRefusal, final.err
	case req.storeErrors && recordable(f.err):
		return attemptRefusal, f.err
	default:
		return attemptFailed, f.err
	}
}

// isConflict tells whether an error of the record's own statement says that a
// row stood in its way, or that it came to nothing.
func isConflict(err error) bool {
	state := sqlState(err)
	return state == codeUniqueViolation || state == codeDivisionByZero
}

// tripped tells whether the tripwire in the record's statement was touched: it
// ran in another transaction than the one that was begun. The outcome is never
// NULL otherwise. The table is not asked for: it may be a partition. Citus leaves
// the column out when it passes a worker's error on; the message names it in every
// language.
func tripped(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == codeNotNullViolation &&
		(server.ColumnName == "outcome" || server.ColumnName == "" && strings.Contains(server.Message, "outcome"))
}

// recordable tells whether an effect's error may be stored as its answer where
// the call asks for that. What the library itself objected to, what a context or
// an operator ended, and the server's own faults may not.
func recordable(err error) bool {
	for _, own := range [...]error{
		ErrTxControl, ErrTxAborted, ErrTxBusy, ErrEffectIdle, ErrResult, ErrInFlight, ErrRestartTx, ErrNested, ErrReentrant,
		ErrArbiter, ErrConflict, ErrBroken, ErrOutcomeUnknown, ErrAttemptsExhausted, pgx.ErrTxClosed,
	} {
		if errors.Is(err, own) {
			return false
		}
	}
	var invalid *InvalidCallError
	if isContextError(err) || isConnectionLost(err) || errors.As(err, &invalid) {
		return false
	}
	switch state := sqlState(err); state[:min(2, len(state))] {
	case "25", "26", "57", "58", "F0", "XX": // transaction state, statements, intervention, system, internal
		return false
	}
	return true
}

// conflictError names what cannot be explained. A nil err is a row that nobody
// can see.
func conflictError(req *request, err error) *ConflictError {
	conflict := &ConflictError{Scope: req.scope, Tool: req.tool, KeyHash: KeyHash(req.key), Table: "tool_dedup"}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		conflict.Err = redacted(server)
		if server.Code == codeUniqueViolation {
			conflict.Table, conflict.Constraint = server.TableName, server.ConstraintName
		}
	}
	return conflict
}

// cleaned returns err, or the server's error in it without the row's values. It
// is for errors of the library's own statements.
func cleaned(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) && redacts(server) {
		return redacted(server)
	}
	return err
}

// explained is cleaned for what has one well-known cause.
func (d *Deduper) explained(err error) error {
	switch sqlState(err) {
	case codeUndefinedTable:
		return &ArbiterError{Table: d.sql.table, Problems: []string{arbiterProblems[0]}}
	case codeInsufficientPrivilege:
		return fmt.Errorf("%w (migrations.Check tells which privileges are missing)", cleaned(err))
	}
	return cleaned(err)
}

// withContext adds the end of ctx to err where err does not tell it already.
func withContext(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(err, ctx.Err()) && errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("dedup: %w: %w", contextError(ctx), err)
}

// recordBroken blocks an identity whose effect ended its own transaction, so
// that a retry cannot repeat whatever of it is committed. It goes on after the
// caller's context has ended.
//
// With LockFirst the identity was free from the moment that the effect ended the
// transaction, and a twin may have run since; then that is told.
func (d *Deduper) recordBroken(ctx context.Context, req *request, cause error, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opts.CommitTimeout)
	defer cancel()
	broken := &BrokenError{Scope: req.scope, Tool: req.tool, KeyHash: KeyHash(req.key), Err: cleaned(cause)}
	c := &doCall{d: d, req: req, out: outcomeBroken, work: noWork}
	if conn != nil { // free, and perhaps the only one
		a := c.attemptOn(ctx, conn)
		rollback(ctx, conn)
		if a.state == attemptExecuted || a.state == attemptFound && a.rec.isBroken() {
			return broken
		}
	}
	s, err := c.run(ctx)
	switch {
	case err != nil:
		broken.Err = fmt.Errorf("%w (and it could not be recorded: %w)", broken.Err, err)
	case !s.executed && !s.rec.isBroken():
		broken.Err = fmt.Errorf("%w (and a twin has run and recorded the call since)", broken.Err)
	}
	return broken
}
