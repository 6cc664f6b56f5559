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
// up to the same limit once more; then the answer is [ErrRestartTx], and ErrInFlight where
// calls claim. A lock on the table itself, such as that of CREATE INDEX, is ErrRestartTx when
// the record is written. [ErrRestartTx] means that the whole transaction must be rolled back
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
		v := c.unopened(ctx, err)
		if v.kind == again && wire.SQLState(err) != wire.CodeReadOnly {
			return restartTx(v.err)
		}
		return v.err
	}
	for {
		c.attempts++
		c.last = attempt{c: c, table: there, on: wire.On(conn), conn: conn, tx: tx, savepoint: savepointOf(tx), limit: c.maxWait}
		switch v := c.last.make(ctx, savepoint{&c.last}); v.kind {
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

// savepoint lies in a caller's transaction.
type savepoint struct{ *attempt }

func (b savepoint) open(ctx context.Context) error {
	return b.table.OpenIn(ctx, b.on, b.savepoint, &b.c.Entry, b.limit, &b.c.seen)
}

// end sends the record and the savepoint's RELEASE.
func (b savepoint) end(ctx context.Context, p *wire.Pipeline) verdict {
	p.Ignore(wire.Query{Text: "release savepoint " + b.savepoint})
	p.Send(ctx)
	at := b.readRecord(p)
	if err := p.Close(); err != nil {
		return b.failed(at, err)
	}
	return verdict{kind: done}
}

func (b savepoint) mend(_ context.Context, err error) { b.on.Renew(err) }

func (b savepoint) free(context.Context) *pgx.Conn {
	if pg := b.conn.PgConn(); pg.IsClosed() || pg.IsBusy() || pg.TxStatus() != 'I' {
		return nil
	}
	return b.conn
}

func (b savepoint) look(ctx context.Context, claim bool) error {
	if err := b.exec(ctx, "rollback to savepoint "+b.savepoint); err != nil {
		return fmt.Errorf("dedup: rolling back to the savepoint: %w", cleaned(err))
	}
	err := b.table.LookUp(ctx, b.on, &b.c.Entry, &b.c.seen)
	if err == nil && claim && !b.c.seen.Found {
		err = b.tryClaim(ctx, &b.c.seen)
	}
	b.on.Renew(err)
	return cleaned(err)
}

// tryClaim claims the identity behind another savepoint, and backs out.
func (b savepoint) tryClaim(ctx context.Context, s *table.Seen) error {
	s.Marked = false
	err := b.table.TryClaimIn(ctx, b.on, b.savepoint, &b.c.Entry, s)
	if s.Marked {
		err = alongside(err, b.backOut(ctx))
	}
	s.Marked = true
	return cleaned(err)
}

func (b savepoint) close(ctx context.Context, v verdict) verdict {
	v = b.inTx(ctx, v)
	if v.kind == done || !b.c.seen.Marked || errors.Is(v.err, ErrBroken) || b.conn.IsClosed() {
		return v
	}
	if left := b.backOut(ctx); left != nil {
		return fail(alongside(v.err, left))
	}
	return v
}

// inTx is what a verdict comes to in a transaction that can only be restarted as a whole.
func (b savepoint) inTx(ctx context.Context, v verdict) verdict {
	state, fresh := wire.SQLState(v.err), b.c.seen.Fresh
	switch {
	case v.kind == busy: // it has waited inside Postgres
		return fail(ErrInFlight)
	case v.kind == again && (!v.pause || v.conflict && fresh):
		return v
	case v.kind == again && state == wire.CodeReadOnly:
		return fail(fmt.Errorf("dedup: in the caller's transaction: %w", cleaned(v.err)))
	case v.kind == again, v.conflict && !fresh:
		return fail(restartTx(cleaned(v.err)))
	case v.kind == failed && b.failedAt != atOpen && !fresh && !b.readOnly && state != "":
		return fail(b.lookPast(ctx, v.err))
	case v.kind == failed && !b.c.seen.Marked && !b.conn.IsClosed() && b.conn.PgConn().TxStatus() == 'E':
		return fail(fmt.Errorf("%w (the transaction is aborted; roll it back)", v.err))
	}
	return v
}

// lookPast finds out whether a record that the transaction's snapshot is too old for is
// behind cause, an error that the server raised in the effect. It claims the identity and
// backs out: a claim meets whatever is committed.
func (b savepoint) lookPast(ctx context.Context, cause error) error {
	var seen table.Seen
	err := b.tryClaim(ctx, &seen)
	switch {
	case err == nil && !seen.Busy && !seen.Hidden && !seen.Found:
		return cause
	case err == nil || wire.IsTransient(err) || wire.IsConnLost(err):
		return restartTx(alongside(cleaned(cause), err))
	default:
		return alongside(cause, fmt.Errorf("dedup: looking for a newer record: %w", err))
	}
}

// backOut rolls back to the savepoint and leaves it. It is one text without arguments, which
// pgx sends in the simple protocol: in an aborted transaction nothing can be prepared.
func (b savepoint) backOut(ctx context.Context) error {
	err := b.exec(ctx, "rollback to savepoint "+b.savepoint+"; release savepoint "+b.savepoint)
	if err != nil {
		return fmt.Errorf("dedup: leaving the savepoint: %w", cleaned(err))
	}
	return nil
}

// exec goes on after the caller's context has ended. A connection that is still busy with a
// result set cannot be rolled back: it is closed, so that nothing of the transaction can be
// committed.
func (b savepoint) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	if b.conn.PgConn().IsBusy() {
		_ = b.conn.Close(ctx)
	}
	_, err := b.conn.Exec(ctx, sql)
	return err
}

func restartTx(err error) error { return &Error{Answer: ErrRestartTx, Err: err} }

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
