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

// explain says what a failed attempt means.
//
// What failed first is no evidence. A lost race may show as a violation of tool_dedup's key,
// of a unique index of the application's own table, as a serialization failure, as a
// deadlock, or as whatever the effect made of one of them; and a trigger can raise what
// looks like a lost race. So the identity is looked up in a new statement, which sees all
// that has been committed:
//
//   - a record: it is the answer, whatever the failure was.
//   - none, the record's own statement gave up waiting for a lock, and a claim that is tried
//     shows that a twin has the row: it is waited for.
//   - none, and the fault is transient: a fresh attempt.
//   - none, and the record's own statement violated a unique constraint: a few more
//     attempts, then an ErrSchema.
//   - none, and no case above: classify decides. The failure may be returned, because this
//     attempt held the identity throughout, so that no twin can have succeeded meanwhile. Or
//     another attempt records it, as a refusal.
func (a *attempt) explain(ctx context.Context, b bracket, err error) verdict {
	c := a.c
	switch {
	case err == errTxEnded, a.failedAt == atRecord && table.Tripped(err):
		if c.outcome != table.Broken { // else the broken record itself cannot be written
			err = c.recordBroken(ctx, err, b.free(ctx))
		}
		return fail(err)
	case ctx.Err() != nil:
		return fail(withContext(ctx, a.clean(err)))
	case a.rode && a.prepared && !a.connLost && mayBeStale(err):
		// Its statement may have been prepared before somebody changed a type. If it fails again in
		// a trip of its own, the error is the statement's own.
		c.walks = true
		return verdict{kind: again}
	}
	if err = a.clean(err); a.rode {
		err = byEffect(c.stmt.explain(err))
	}
	switch unseen := b.look(ctx, a.blocked > 0); {
	case unseen != nil && mayRetry(ctx, unseen) && !errors.Is(err, guard.ErrTxBusy): // whether the race was lost is not known; a fresh attempt finds out
		return retry(errors.Join(err, unseen))
	case unseen != nil:
		return fail(alongside(err, fmt.Errorf("looking up the record: %w", unseen)))
	case c.seen.Found:
		c.waits.all += a.blocked
		return verdict{kind: found}
	case c.seen.Busy && a.blocked > 0:
		c.waits.all += a.blocked
		return verdict{kind: busy}
	}
	return c.classify(err)
}

// clean takes the row's values out of an error of the record's own statement.
func (a *attempt) clean(err error) error {
	if a.failedAt == atRecord {
		return cleaned(err)
	}
	return err
}

// classify says what a failure means when no record explains it, and so what is retried, by the
// facts of the attempt. explain has dealt with what needs no look and with what the look found. The
// order of the cases matters.
func (c *call) classify(err error) verdict {
	a := &c.last
	var final *finalError
	var notFinal *notFinalError
	switch {
	case a.failedAt == atRecord && table.IsConflict(err):
		return c.conflict(err)
	case a.failedAt == atRecord && wire.SQLState(err) == wire.CodePreparedMissing && a.savepoint != "":
		return fail(invalidEffect(err, "has discarded the prepared statements of its connection (DEALLOCATE, DISCARD); leave them, or call pgx's Conn.DeallocateAll after the transaction"))
	case a.failedAt == atRecord && wire.SQLState(err) == wire.CodePreparedMissing && !c.discards:
		c.discards = true // the effect has discarded them; the next attempt has another connection
		return verdict{kind: again}
	case a.readOnly:
		return fail(readOnlyTx(err))
	case wire.IsTransient(err), errors.Is(effectsOwn(err), ErrRestartTx), a.connLost && wire.IsConnLost(err):
		return retry(err)
	case wire.IsTxTimeout(err):
		return fail(invalidEffect(err, "sent nothing for longer than Options.IdleTimeout, or took longer than the server's transaction_timeout; keep slow calls out of it, or raise the limit"))
	case a.failedAt == atRecord:
		return fail(fmt.Errorf("dedup: writing the record: %w", err)) // which clean has redacted
	case errors.As(err, &notFinal):
		return fail(err)
	case errors.Is(err, guard.ErrTxControl):
		return fail(misused(err))
	case errors.As(err, &final):
		return c.refuse(final.err)
	case c.storeErrors && c.outcome == table.Done && recordable(err): // once: COMMIT may refuse that record too
		return c.refuse(effectsOwn(err))
	case wire.SQLState(err) != "": // a deferred constraint failed at COMMIT
		return fail(byEffect(err))
	default:
		return fail(err)
	}
}

// unopened says what a failure before the effect means: nothing was run, so there is no race to look
// for.
func (c *call) unopened(ctx context.Context, err error) verdict {
	switch {
	case wire.SQLState(err) == wire.CodeUniqueViolation: // of a claim
		return c.conflict(err)
	case wire.IsUnsent(err) && c.stmt.Read != nil && !c.walks:
		c.walks = true
		return verdict{kind: again}
	}
	if wire.SQLState(err) == wire.CodePreparedMissing && c.renewed < c.d.pool.Stat().MaxConns() {
		c.renewed++ // somebody has discarded what was prepared
		return verdict{kind: again, err: err}
	}
	err = c.d.explained(hintPooler(err))
	switch {
	case wire.IsReadOnlyTx(err): // behind a statement that a standby refuses
		return fail(readOnlyTx(err))
	case mayRetry(ctx, err):
		return verdict{kind: again, err: err, pause: true, outage: isOutage(err)}
	case errors.Is(err, ErrSchema):
		return fail(err)
	case ctx.Err() != nil:
		return fail(fmt.Errorf("dedup: opening the transaction: %w: %w", contextError(ctx), err))
	default:
		return fail(fmt.Errorf("dedup: opening the transaction: %w", err))
	}
}

// mayRetry reports whether an error of the library's own statements, before anything was
// written, is worth a fresh attempt: a transient one, or a connection that broke without the
// server saying why.
func mayRetry(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, ErrInFlight) {
		return false
	}
	return wire.IsTransient(err) || wire.IsConnLost(err)
}

// isOutage reports whether an error that mayRetry is about comes from the state that the
// server is in, and not from other transactions.
func isOutage(err error) bool {
	switch wire.SQLState(err) {
	case wire.CodeSerialization, wire.CodeDeadlock, wire.CodeLockNotAvailable:
		return false
	}
	return true
}

// refuse makes recording a refusal the work of the attempts to come: the record must not
// share a transaction with the effect's writes.
func (c *call) refuse(cause error) verdict {
	text, err := encodeRefusal(cause, c.d.opts.MaxResultBytes)
	if err != nil {
		return fail(fmt.Errorf("%w (the refusal: %w)", err, cause))
	}
	c.outcome, c.text, c.cause = table.Refused, text, cause
	return verdict{kind: again}
}

// errHidden is the conflict of a claim with a row that no look-up finds.
var errHidden = errors.New("dedup: a row is in the way that cannot be seen")

// maxConflicts is the number of further attempts after a unique violation without a record.
// After a lost race there is a record, unless the winner's was deleted already. A trigger or
// another unique index raises the violation every time: without the bound an effect ran 4,104
// times in 2 s (measured).
const maxConflicts = 2

// conflict is a unique violation without a record: the winner's may have been deleted since,
// so that a few more attempts are made.
func (c *call) conflict(err error) verdict {
	c.conflicts++
	if c.conflicts > maxConflicts || c.last.savepoint == "" && c.conflicts >= c.d.opts.Retry.MaxAttempts {
		return verdict{kind: failed, err: c.conflictError(err), conflict: true}
	}
	return verdict{kind: again, pause: true, err: err, conflict: true}
}

// conflictError names what cannot be explained.
func (c *call) conflictError(err error) *Error {
	const why = "writing the record conflicts, although there is no record of this identity: a trigger, a rule, row security or another unique index on tool_dedup"
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return c.named(Error{Answer: ErrSchema, Err: fmt.Errorf(why+" (table %q, constraint %q): %w", server.TableName, server.ConstraintName, redacted(server))})
	}
	return c.named(Error{Answer: ErrSchema, Err: errors.New(why)})
}

// recordable reports whether an error may be stored as the call's answer where the call asks
// for that. It is the effect's own or the server's. What the library itself objected to, what
// a context or an operator ended, and the server's own faults may not.
func recordable(err error) bool {
	own, effects := err.(*effectError)
	switch {
	case effects:
		err = own.err
	case wire.SQLState(err) == "":
		return false
	}
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

// errTxEnded is what the guard says of an effect that ended its transaction.
var errTxEnded = guard.ErrTxEnded

// recordBroken blocks the identity of a call whose effect ended its own transaction, so that
// a retry cannot repeat whatever of it is committed. It goes on after the caller's context
// has ended. conn is a connection that is free, and perhaps the only one; nil takes one of
// the pool.
//
// With locks the identity was free from the moment that the effect ended the
// transaction, and a twin may have run since; then the error says so.
func (c *call) recordBroken(ctx context.Context, cause error, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.d.opts.CommitTimeout)
	defer cancel()
	err := c.named(Error{Answer: ErrBroken, Err: cleaned(cause)})
	block := &call{outcome: table.Broken, asked: c.asked}
	block.lookFirst = false
	block.span.ctx, block.span.call, block.span.began = c.span.ctx, c.span.call, c.span.began
	if conn != nil {
		v := block.attemptOn(ctx, conn, &ownTx{attempt: &block.last})
		wire.Rollback(ctx, conn)
		if v.kind == done && !block.written.CreatedAt.IsZero() || v.kind == found && block.seen.Record.IsBroken() {
			err.Err = alongside(err.Err, c.d.auditBroken(ctx, conn, &c.Identity, cause))
			return err
		}
	}
	failed := block.run(ctx)
	switch {
	case failed != nil:
		err.Err = fmt.Errorf("%w (and it could not be recorded: %w)", err.Err, failed)
	case !block.executed && !block.rec.IsBroken():
		err.Err = fmt.Errorf("%w (and a twin has run and recorded the call since)", err.Err)
	default:
		err.Err = alongside(err.Err, c.d.auditBroken(ctx, nil, &c.Identity, cause))
	}
	return err
}

// auditBroken writes down that a record is broken, so that it can be found without an index
// on the records: claims and records would pay for that one. The record counts without it.
func (d *Deduper) auditBroken(ctx context.Context, conn *pgx.Conn, id *table.Identity, cause error) error {
	if conn == nil {
		pooled, err := d.acquire(ctx)
		if err != nil {
			return fmt.Errorf("dedup: writing the audit: %w", err)
		}
		defer d.release(ctx, pooled)
		conn = pooled.Conn()
	}
	if err := d.table().AuditBroken(ctx, conn, id, cleaned(cause).Error()); err != nil {
		return fmt.Errorf("dedup: writing the audit: %w", cleaned(err))
	}
	return nil
}
