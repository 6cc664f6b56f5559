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

// DoTx is Do inside the caller's transaction: effect and record are committed
// or rolled back with whatever else is in tx, and several calls can share one
// transaction. What it answers is only true once the caller has committed.
//
// It works behind a savepoint, so that an effect that fails leaves tx as it was
// before: the transaction stays usable. It makes one attempt, another one to record
// a refusal, and at most two after a conflict without a record. A twin in flight
// is waited for inside Postgres, which finds deadlocks, for at most MaxWait or
// the session's lock_timeout, whichever is shorter; then the answer is ErrInFlight and
// tx stays healthy. A record that may be forgotten and is held, by a sweep say, is waited for
// up to the same limit once more; then the answer is [ErrRestartTx], and ErrInFlight with
// ClaimFirst. A lock on the table itself, such as that of CREATE INDEX, is ErrRestartTx when
// the record is written. A negative MaxWait is 5 ms here, so that somebody who only looks is
// not taken for a twin. [ErrRestartTx] means that the whole transaction must be rolled back
// and run again. Use READ COMMITTED, and the same order of keys in every
// transaction.
//
// A refusal ([ErrRefused]) is an error and an answer: its record is in tx, and
// is only kept if the caller commits on it. Rolled back, the next call runs
// again. [Deduper.BeginFunc] makes transactions that commit on it and restart where
// ErrRestartTx asks for that.
//
// Do not call Do for the same identity before the transaction has
// ended: it would wait for itself, and nobody could see that.
func DoTx[R any](ctx context.Context, d *Deduper, tx pgx.Tx, call Call, effect Effect[R]) (result Result[R], err error) {
	ctx, c := startCall(ctx, d, "DoTx", &call)
	defer c.span.abandon()
	if err = c.check(ctx, d, &call); err == nil && effect == nil {
		err = errNoEffect
	}
	if err == nil {
		err = checkTx(tx)
	}
	if err == nil && guard.InsideOwn(ctx, c.owner()) {
		err = errReentrant
	}
	if err == nil {
		var value R
		c.effect = recordedEffect(d, effect, &value)
		err = c.doTx(ctx, tx)
		result, err = answer(c, value, err)
		if refused, ok := err.(*RefusedError); ok {
			refused.in = guard.ConnOf(tx)
		}
	}
	return result, c.end(err)
}

// doTx makes an attempt behind a savepoint of the caller's transaction, another one where a
// refusal is to be recorded, and at most maxConflicts after a conflict without a record. It
// takes no part in the process's flights: its record is not committed when it returns.
//
// It leaves the effect and its record in the transaction, and nothing where the effect fails.
func (c *call) doTx(ctx context.Context, tx pgx.Tx) error {
	if ctx.Err() != nil {
		return fmt.Errorf("dedup: %w", contextError(ctx))
	}
	conn := guard.ConnOf(tx)
	there, err := c.d.checkTableOf(ctx, conn)
	if err != nil {
		return inTx(err)
	}
	for {
		c.attempts++
		c.last = attempt{
			c: c, table: there, on: wire.On(conn), conn: conn, tx: tx,
			savepoint: savepointOf(tx), limit: c.inPostgres(),
		}
		switch v := c.attemptIn(ctx); v.kind {
		case again:
			continue
		case done:
			return c.settleIn()
		case found:
			c.rec = &c.seen.Record
			return nil
		default:
			return v.err
		}
	}
}

// savepointOf names the savepoint of a call in tx. The name says how deep the call is nested in
// others' effects, so that no call can take another's savepoint for its own.
func savepointOf(tx pgx.Tx) string { return "tool_dedup_" + strconv.Itoa(guard.Depth(tx)+1) }

// attemptIn makes one attempt behind the savepoint. It rolls back to it, and leaves it,
// unless the record is written.
func (c *call) attemptIn(ctx context.Context) verdict {
	a := &c.last
	c.seen = table.Seen{}
	err := a.table.OpenIn(ctx, a.on, a.savepoint, &c.Entry, a.limit, &c.seen)
	a.started = c.seen.At
	var v verdict
	switch {
	case err != nil && !c.seen.Marked: // and nothing to back out of
		return fail(a.unopenedIn(err))
	case wire.SQLState(err) == wire.CodeUniqueViolation: // of a claim
		v = c.conflict(err)
	case err != nil:
		v = fail(a.unopenedIn(err))
	default:
		var ok bool
		if v, ok = c.opened(); ok {
			v = a.performIn(ctx)
		}
	}
	switch {
	case v.kind == done:
		return v
	case v.kind == failed && a.failedAt != atOpen:
		return c.explainIn(ctx, v.err)
	case v.kind == busy: // it has waited inside Postgres
		v = fail(ErrInFlight)
	}
	if left := a.backOut(ctx); left != nil {
		return fail(alongside(v.err, left))
	}
	return v
}

// unopenedIn is the error of an attempt that could not look at the identity.
func (a *attempt) unopenedIn(err error) error {
	a.on.Renew(err)
	switch {
	case wire.SQLState(err) == wire.CodePreparedMissing:
		return restartTx(err) // a fresh transaction meets what is prepared anew
	case wire.IsReadOnlyTx(err) && a.conn.PgConn().ParameterStatus("in_hot_standby") == "off":
		return readOnlyTx(err) // of a claim; on a standby another server may take it
	}
	err = inTx(a.c.d.explained(hintPooler(err)))
	if !a.c.seen.Marked && a.conn.PgConn().TxStatus() == 'E' {
		err = fmt.Errorf("%w (the transaction is aborted; roll it back)", err)
	}
	return err
}

// performIn is perform behind the savepoint. After a panic it rolls back to the savepoint, and the
// panic goes on.
func (a *attempt) performIn(ctx context.Context) verdict {
	returned := false
	defer func() {
		switch {
		case returned:
		case a.c.endedTx:
			_ = a.c.recordBroken(ctx, errTxEnded, a.freeConn()) // the panic is what is raised
		default:
			_ = a.backOut(ctx) // likewise
		}
	}()
	v := a.perform(ctx)
	returned = true
	return v
}

// settleIn makes the record that was just written the call's answer. It is not committed yet.
func (c *call) settleIn() error {
	if c.written.CreatedAt.IsZero() { // the savepoint was released in the same pipeline
		c.d.reexamine()
		conflict := c.conflictError(nil)
		conflict.Err = fmt.Errorf("%w; roll the transaction back: %w", conflict.Err, table.ErrSwallowed)
		return conflict
	}
	c.rec, c.executed = &c.written, true
	return nil
}

// explainIn is explain inside the caller's transaction.
func (c *call) explainIn(ctx context.Context, err error) verdict {
	a := &c.last
	a.on.Renew(err)
	if v, ok := c.explainedAlready(ctx, err, a.freeConn()); ok {
		if !errors.Is(v.err, ErrBroken) { // else there is no savepoint any more
			v.err = alongside(v.err, a.backOut(ctx))
		}
		return v
	}
	if err = a.clean(err); a.connLost && (wire.IsConnLost(err) || wire.IsTransient(err)) {
		return fail(restartTx(err))
	}
	leftOpen, fresh := a.conn.PgConn().IsBusy(), c.seen.Fresh
	switch unseen := a.lookBehind(ctx); {
	case unseen != nil && wire.SQLState(err) != "" && !leftOpen && (wire.IsConnLost(unseen) || wire.IsTransient(unseen)):
		// Perhaps a lost race: another run of the transaction will see.
		return fail(restartTx(alongside(err, unseen)))
	case unseen != nil:
		return fail(alongside(err, unseen))
	case c.seen.Found:
		c.waits.all += a.blocked
		return verdict{kind: found}
	case a.blocked > 0:
		return fail(a.unblocked(ctx, err))
	}
	v := c.classify(err)
	switch {
	case v.conflict && fresh, v.kind == again && !v.pause:
		return v
	case v.conflict:
		return fail(restartTx(err))
	case v.kind == again && wire.SQLState(err) == wire.CodeReadOnly:
		return fail(inTx(err))
	case v.kind == again:
		return fail(restartTx(cleaned(err)))
	case !fresh && !a.readOnly && wire.SQLState(v.err) != "":
		return fail(a.lookPast(ctx, v.err))
	}
	return v
}

// lookBehind rolls back to the savepoint, looks the record up, and leaves the savepoint.
func (a *attempt) lookBehind(ctx context.Context) error {
	if err := a.exec(ctx, "rollback to savepoint "+a.savepoint); err != nil {
		return fmt.Errorf("dedup: rolling back to the savepoint: %w", cleaned(err))
	}
	err := a.table.LookUp(ctx, a.on, &a.c.Entry, &a.c.seen)
	if err != nil {
		a.on.Renew(err)
		err = fmt.Errorf("dedup: looking up the record: %w", cleaned(err))
	}
	return alongside(err, a.backOut(ctx))
}

// lookPast finds out whether a record that the transaction's snapshot is too old for is
// behind cause, an error that the server raised in the effect. It claims the identity and
// backs out: a claim meets whatever is committed.
func (a *attempt) lookPast(ctx context.Context, cause error) error {
	seen, err := a.tryClaim(ctx)
	switch {
	case err == nil && !seen.Busy && !seen.Hidden && !seen.Found:
		return cause
	case err == nil || wire.IsTransient(err) || wire.IsConnLost(err):
		return restartTx(alongside(cleaned(cause), err))
	default:
		return alongside(cause, fmt.Errorf("dedup: looking for a newer record: %w", err))
	}
}

// unblocked says what the record has waited for: a twin that has no lock, or somebody else.
func (a *attempt) unblocked(ctx context.Context, cause error) error {
	seen, err := a.tryClaim(ctx)
	if err == nil && seen.Busy {
		a.c.waits.all += a.blocked
		return ErrInFlight
	}
	return restartTx(alongside(cause, err))
}

// tryClaim claims the identity behind the savepoint, and leaves it.
func (a *attempt) tryClaim(ctx context.Context) (seen table.Seen, err error) {
	err = cleaned(a.table.TryClaimIn(ctx, a.on, a.savepoint, &a.c.Entry, &seen))
	if seen.Marked {
		err = alongside(err, a.backOut(ctx))
	}
	return seen, err
}

// inTx turns a fault that a fresh transaction would avoid into the ErrRestartTx that asks for one.
func inTx(err error) error {
	switch {
	case errors.Is(err, ErrSchema):
		return err
	case wire.SQLState(err) != wire.CodeReadOnly && (wire.IsTransient(err) || wire.IsConnLost(err)):
		return restartTx(cleaned(err))
	}
	return fmt.Errorf("dedup: in the caller's transaction: %w", cleaned(err))
}

func restartTx(err error) error { return &Error{Answer: ErrRestartTx, Err: err} }

// freeConn is the caller's connection where its transaction has been ended, and so it is
// free: the caller may hold the only one of the pool. Else it is nil.
func (a *attempt) freeConn() *pgx.Conn {
	if pg := a.conn.PgConn(); pg.IsClosed() || pg.IsBusy() || pg.TxStatus() != 'I' {
		return nil
	}
	return a.conn
}

// backOut rolls back to the savepoint and leaves it. It is one text without arguments, which
// pgx sends in the simple protocol: in an aborted transaction nothing can be prepared.
func (a *attempt) backOut(ctx context.Context) error {
	err := a.exec(ctx, "rollback to savepoint "+a.savepoint+"; release savepoint "+a.savepoint)
	if err != nil {
		return fmt.Errorf("dedup: leaving the savepoint: %w", cleaned(err))
	}
	return nil
}

// exec goes on after the caller's context has ended. A connection that is still busy with a
// result set cannot be rolled back: it is closed, so that nothing of the transaction can be
// committed.
func (a *attempt) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	if a.conn.PgConn().IsBusy() {
		_ = a.conn.Close(ctx)
	}
	_, err := a.conn.Exec(ctx, sql)
	return err
}

// checkTx reports whether tx can be worked in.
func checkTx(tx pgx.Tx) error {
	invalid := func(reason string) error { return invalid("tx", "%s", reason) }
	if tx == nil {
		return invalid("must not be nil")
	}
	var pg *pgconn.PgConn
	if conn := guard.ConnOf(tx); conn != nil {
		pg = conn.PgConn()
	}
	switch {
	case pg == nil:
		return invalid("has no connection")
	case pg.IsClosed():
		return invalid("has a closed connection")
	case pg.IsBusy():
		return invalid("has a result set that is still open; close its rows first")
	case pg.TxStatus() == 'I':
		return invalid("has ended")
	case pg.TxStatus() == 'E':
		return invalid("is aborted, because an earlier statement failed; roll it back")
	}
	if err := tx.SendBatch(context.Background(), &pgx.Batch{}).Close(); err != nil { // nothing is sent
		// Its connection may be in another's transaction by now.
		return &InvalidError{What: "call", Field: "tx", Reason: "has ended", Err: err}
	}
	if err := wire.CheckSession(pg); err != nil {
		return &InvalidError{What: "call", Field: "tx", Reason: "has a session with a client_encoding other than UTF8", Err: err}
	}
	return nil
}
