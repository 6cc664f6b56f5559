package dedup

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// DoTx is Do inside the caller's transaction: effect and record are committed or rolled back
// together with everything else in tx. Several calls can share one transaction. The answer holds
// only if the caller commits.
//
// DoTx uses a savepoint: if an effect fails, tx stays usable and is as it was before. It makes one
// attempt, another to record a refusal, and at most two after a conflict without a record. Use READ
// COMMITTED, and the same order of keys in every transaction.
//
// DoTx waits for a twin inside Postgres, which detects deadlocks. The wait ends after MaxWait or
// the session's lock_timeout, whichever is shorter, with [ErrInFlight]; tx stays usable. DoTx waits
// once more, up to the same limit, for a forgotten record that another transaction holds, such as a
// sweep. Then the answer is [ErrRestartTx], or ErrInFlight on servers other than plain PostgreSQL.
// If the table is locked when the record is written, as by CREATE INDEX, the answer is
// ErrRestartTx.
//
// After [ErrRestartTx] roll the whole transaction back and run it again. [Deduper.BeginFunc] does
// that.
//
// A refusal ([ErrRefused]) is an error and an answer. Its record is in tx and lasts only if the
// caller commits; BeginFunc does. After a rollback the next call runs the effect again.
//
// After an [ErrSchema] roll the transaction back: the effect may be in it without a record.
//
// Do not call Do for the same identity before the transaction ends. It would wait for its own
// caller, and the library cannot detect that.
//
// Other errors are in the table of the package documentation.
func DoTx[R any](ctx context.Context, d *Deduper, tx pgx.Tx, call Call, effect Effect[R]) (result Result[R], err error) {
	ctx, c := startCall(ctx, d, "DoTx", &call)
	defer c.span.abandon()
	if err = c.check(ctx, d, &call); err == nil && effect == nil {
		err = errNoEffect
	}
	if err == nil {
		err = checkTx(ctx, tx)
	}
	if err == nil && guard.InsideOwn(ctx, c.owner(wire.On(guard.ConnOf(tx)))) {
		err = errReentrant
	}
	if err == nil {
		var value R
		c.effect = recordedEffect(d, effect, &value)
		err = c.doTx(ctx, tx)
		result, err = answer(c, value, err)
		if refused, ok := err.(*RefusedError); ok {
			refused.in = &refusedIn{on: c.current.on, started: c.current.started, table: c.current.table, id: c.Identity}
		}
	}
	return result, c.end(err)
}

// doTx makes an attempt behind a savepoint of the caller's transaction, another to record a
// refusal, and at most maxConflicts after a conflict without a record. It shares no answer with
// other calls of the process, because its record is not committed when it returns.
//
// It leaves the effect and its record in the transaction, or nothing if the effect fails.
func (c *call) doTx(ctx context.Context, tx pgx.Tx) error {
	on := wire.On(guard.ConnOf(tx))
	deferred, _ := guard.DeferredOf(tx).(*funcTx)
	if deferred != nil && deferred.d != c.d { // another Deduper has other limits, so BEGIN is sent alone
		if err := deferred.Begin(ctx); err != nil {
			return err
		}
	}
	t, err := c.d.checkTableOf(ctx, on)
	if err != nil {
		end := c.openFailed(ctx, err)
		if end.kind == again && wire.SQLState(err) != wire.CodeReadOnly {
			return restartTx(end.err)
		}
		return end.err
	}
	for {
		c.attempts++
		c.current = attempt{c: c, table: t, on: on, tx: tx, limit: c.maxWait}
		switch end := c.current.run(ctx, savepoint{&c.current, savepointName(tx), deferred}); end.kind {
		case again:
			continue
		case done:
			return c.useWrittenInTx()
		case found:
			c.rec = &c.seen.Record
			return nil
		default:
			return end.err
		}
	}
}

// savepointName returns the name of a call's savepoint in tx. It contains the depth of nested
// effects, so that each call has a different savepoint.
func savepointName(tx pgx.Tx) string { return "tool_dedup_" + strconv.Itoa(guard.Depth(tx)+1) }

// useWrittenInTx makes the record that the attempt wrote the call's answer. The record is not
// committed yet.
func (c *call) useWrittenInTx() error {
	if c.written.CreatedAt.IsZero() { // the savepoint was released in the same pipeline
		c.d.reexamine()
		conflict := c.conflictError(nil)
		conflict.Err = fmt.Errorf("%w; roll the transaction back: %w", conflict.Err, table.ErrSwallowed)
		return conflict
	}
	c.rec, c.ownRec, c.executed = &c.written, &c.written, true
	return nil
}

// savepoint is the part of the caller's transaction that an attempt runs in.
type savepoint struct {
	*attempt
	name     string
	deferred *funcTx // the caller's transaction, if it had not begun before the call
}

func (sp savepoint) open(ctx context.Context) error {
	begin := sp.deferred != nil && sp.deferred.tx == nil
	err := sp.table.OpenIn(ctx, sp.on, begin, sp.name, &sp.c.Entry, sp.limit, &sp.c.seen)
	if begin {
		sp.deferred.begun(ctx, sp.c.seen.Tx, sp.c.seen.Started, err)
	}
	return err
}

// end sends the record and RELEASE of the savepoint.
func (sp savepoint) end(ctx context.Context, p *wire.Pipeline) ending {
	p.Ignore(wire.Query{Text: "release savepoint " + sp.name})
	p.Send(ctx)
	at := sp.readRecord(p)
	if err := p.Close(); err != nil {
		return sp.failAt(at, err)
	}
	return ending{kind: done}
}

func (sp savepoint) dropUnusable(_ context.Context, err error) { sp.on.InvalidateAfter(err) }

// idleConn rolls back. The effect has ended the caller's transaction, and may have begun another.
func (sp savepoint) idleConn(ctx context.Context) *wire.Conn {
	if sp.callersTxEnded() {
		return nil // its connection is another call's, or the pool's
	}
	wire.Rollback(ctx, sp.on.Conn())
	if sp.on.Conn().IsClosed() {
		return nil
	}
	return sp.on
}

func (sp savepoint) runNext(ctx context.Context, next *attempt) ending {
	end := (&ownTx{attempt: next}).runOn(ctx, sp.on)
	wire.Rollback(ctx, sp.on.Conn())
	return end
}

func (sp savepoint) letGo(context.Context) {}

func (sp savepoint) look(ctx context.Context, claim bool) error {
	if err := sp.exec(ctx, "rollback to savepoint "+sp.name); err != nil {
		return fmt.Errorf("dedup: rolling back to the savepoint: %w", redact(err))
	}
	err := sp.table.LookUp(ctx, sp.on, &sp.c.Entry, &sp.c.seen)
	if err == nil && claim && !sp.c.seen.Found {
		err = sp.tryClaim(ctx, &sp.c.seen)
	}
	sp.on.InvalidateAfter(err)
	return redact(err)
}

// tryClaim claims the identity behind another savepoint, and rolls back.
func (sp savepoint) tryClaim(ctx context.Context, s *table.Seen) error {
	s.InSavepoint = false
	err := sp.table.TryClaimIn(ctx, sp.on, sp.name, &sp.c.Entry, s)
	if s.InSavepoint {
		err = joinErr(err, sp.backOut(ctx))
	}
	s.InSavepoint = true
	return redact(err)
}

func (sp savepoint) close(ctx context.Context, end ending) ending {
	end = sp.inTx(ctx, end)
	if end.kind == done || !sp.c.seen.InSavepoint || errors.Is(end.err, ErrBroken) || sp.on.PgConn().IsClosed() {
		return end
	}
	if left := sp.backOut(ctx); left != nil {
		return fail(joinErr(end.err, left))
	}
	return end
}

// inTx adapts an ending to the caller's transaction, which only its caller can restart.
func (sp savepoint) inTx(ctx context.Context, end ending) ending {
	fresh := sp.c.seen.Fresh
	switch {
	case end.kind == busy: // it has waited inside Postgres
		return fail(ErrInFlight)
	case end.kind == again && (!end.pause || end.conflict && fresh):
		return end
	case end.kind == again && wire.SQLState(end.err) == wire.CodeReadOnly:
		return fail(fmt.Errorf("dedup: in the caller's transaction: %w", redact(end.err)))
	case end.kind == again, end.conflict && !fresh:
		return fail(restartTx(redact(end.err)))
	case end.kind == failed && sp.mayHideRecord(ctx, end.err):
		return fail(sp.findNewerRecord(ctx, end.err))
	case end.kind == failed && !sp.c.seen.InSavepoint && !sp.on.PgConn().IsClosed() && sp.on.PgConn().TxStatus() == 'E':
		return fail(fmt.Errorf("%w (the transaction is aborted; roll it back)", end.err))
	}
	return end
}

// mayHideRecord reports whether a twin's record that the transaction's snapshot does not see may
// have caused a failure. The effect may have read the twin's writes, so every error of an effect
// counts.
func (sp savepoint) mayHideRecord(ctx context.Context, err error) bool {
	pg := sp.on.PgConn()
	return !sp.c.seen.Fresh && sp.failure.at != notFailed && !sp.failure.readOnly && ctx.Err() == nil &&
		!errors.Is(err, ErrBroken) && !pg.IsClosed() && !pg.IsBusy() && pg.TxStatus() != 'I'
}

// findNewerRecord looks for a record that the transaction's snapshot does not see, and that may
// have caused a failure. It claims the identity and rolls back: a claim conflicts with everything
// committed.
func (sp savepoint) findNewerRecord(ctx context.Context, cause error) error {
	var seen table.Seen
	err := sp.tryClaim(ctx, &seen)
	switch {
	case err == nil && !seen.Busy && !seen.Hidden && !seen.Found:
		return cause
	case err == nil || wire.IsTransient(err) || wire.IsConnLost(err):
		return restartTx(joinErr(redact(cause), err))
	default:
		return joinErr(cause, fmt.Errorf("dedup: looking for a newer record: %w", err))
	}
}

// backOut rolls back to the savepoint and releases it. It sends one text without arguments, which
// pgx sends in the simple protocol, because an aborted transaction cannot prepare statements.
func (sp savepoint) backOut(ctx context.Context) error {
	err := sp.exec(ctx, "rollback to savepoint "+sp.name+"; release savepoint "+sp.name)
	if err != nil {
		return fmt.Errorf("dedup: leaving the savepoint: %w", redact(err))
	}
	return nil
}

// exec sends sql even if the caller's context ended. It closes a connection with an open result
// set, which cannot be rolled back. Then nothing of the transaction can be committed.
func (sp savepoint) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	if sp.on.PgConn().IsBusy() {
		_ = sp.on.Conn().Close(ctx)
	}
	_, err := sp.on.Conn().Exec(ctx, sql)
	return err
}

func restartTx(err error) error { return &Error{Kind: ErrRestartTx, Err: err} }

// checkTx returns an error if no call can be made in tx: the error of ctx if it ended, an
// ErrRestartTx if the connection is lost, else an ErrInvalid.
func checkTx(ctx context.Context, tx pgx.Tx) error {
	invalid := func(reason string) error { return invalid("tx", "%s", reason) }
	if tx == nil {
		return missing("tx", "must not be nil")
	}
	var pg *pgconn.PgConn
	if conn := guard.ConnOf(tx); conn != nil {
		pg = conn.PgConn()
	}
	switch {
	case pg == nil:
		return invalid("has no connection")
	case ctx.Err() != nil: // which may be why the connection is lost or busy
		return fmt.Errorf("dedup: %w", contextError(ctx))
	case pg.IsClosed() && !errors.Is(probe(tx), pgx.ErrTxClosed):
		return restartTx(pgconn.ErrConnClosed)
	case pg.IsClosed():
		return invalid("has ended")
	case pg.IsBusy():
		return invalid("has a result set that is still open; close its rows first")
	case guard.DeferredOf(tx) != nil: // it begins with the call
		return nil
	case pg.TxStatus() == 'I':
		return invalid("has ended")
	case pg.TxStatus() == 'E':
		return invalid("is aborted, because an earlier statement failed; roll it back")
	}
	if err := probe(tx); err != nil {
		// Its connection may be in another transaction by now.
		return &InvalidError{What: "call", Field: "tx", Reason: "has ended", Err: err}
	}
	if err := wire.CheckSession(pg); err != nil {
		return &InvalidError{What: "call", Field: "tx", Reason: "has a client_encoding other than UTF8", Err: err}
	}
	return nil
}
