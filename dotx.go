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
			refused.in = &refusedIn{on: c.last.on, started: c.last.started, table: c.last.table, id: c.Identity}
		}
	}
	return result, c.end(err)
}

// doTx makes an attempt behind a savepoint of the caller's transaction, another one if a refusal is to
// be recorded, and at most maxConflicts after a conflict without a record. It does not share with the
// process's other calls: its record is not committed when it returns.
//
// It leaves the effect and its record in the transaction, and nothing if the effect fails.
func (c *call) doTx(ctx context.Context, tx pgx.Tx) error {
	on := wire.On(guard.ConnOf(tx))
	begins, _ := guard.DeferredOf(tx).(*funcTx)
	if begins != nil && begins.d != c.d { // whose limits are others
		if err := begins.Begin(ctx); err != nil {
			return err
		}
	}
	t, err := c.d.checkTableOf(ctx, on)
	if err != nil {
		v := c.unopened(ctx, err)
		if v.kind == again && wire.SQLState(err) != wire.CodeReadOnly {
			return restartTx(v.err)
		}
		return v.err
	}
	for {
		c.attempts++
		c.last = attempt{c: c, table: t, on: on, tx: tx, limit: c.maxWait}
		switch v := c.last.make(ctx, savepoint{&c.last, savepointName(tx), begins}); v.kind {
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

// savepointName names the savepoint of a call in tx. The name has the depth at which the call is
// nested in other effects, so that no call takes another's savepoint for its own.
func savepointName(tx pgx.Tx) string { return "tool_dedup_" + strconv.Itoa(guard.Depth(tx)+1) }

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

// savepoint is a bracket in the caller's transaction.
type savepoint struct {
	*attempt
	name   string
	begins *funcTx // the caller's transaction if it had not begun before the call, else nil
}

func (b savepoint) open(ctx context.Context) error {
	begin := b.begins != nil && b.begins.tx == nil
	err := b.table.OpenIn(ctx, b.on, begin, b.name, &b.c.Entry, b.limit, &b.c.seen)
	if begin {
		b.begins.begun(ctx, b.c.seen.Tx, b.c.seen.At, err)
	}
	return err
}

// end sends the record and the savepoint's RELEASE.
func (b savepoint) end(ctx context.Context, p *wire.Pipeline) verdict {
	p.Ignore(wire.Query{Text: "release savepoint " + b.name})
	p.Send(ctx)
	at := b.readRecord(p)
	if err := p.Close(); err != nil {
		return b.failed(at, err)
	}
	return verdict{kind: done}
}

func (b savepoint) mend(_ context.Context, err error) { b.on.Renew(err) }

func (b savepoint) free(context.Context) *wire.Conn {
	if pg := b.on.PgConn(); pg.IsClosed() || pg.IsBusy() || pg.TxStatus() != 'I' {
		return nil
	}
	return b.on
}

func (b savepoint) look(ctx context.Context, claim bool) error {
	if err := b.exec(ctx, "rollback to savepoint "+b.name); err != nil {
		return fmt.Errorf("dedup: rolling back to the savepoint: %w", cleaned(err))
	}
	err := b.table.LookUp(ctx, b.on, &b.c.Entry, &b.c.seen)
	if err == nil && claim && !b.c.seen.Found {
		err = b.tryClaim(ctx, &b.c.seen)
	}
	b.on.Renew(err)
	return cleaned(err)
}

// tryClaim claims the identity behind another savepoint, and rolls back.
func (b savepoint) tryClaim(ctx context.Context, s *table.Seen) error {
	s.Marked = false
	err := b.table.TryClaimIn(ctx, b.on, b.name, &b.c.Entry, s)
	if s.Marked {
		err = joinErr(err, b.backOut(ctx))
	}
	s.Marked = true
	return cleaned(err)
}

func (b savepoint) close(ctx context.Context, v verdict) verdict {
	v = b.inTx(ctx, v)
	if v.kind == done || !b.c.seen.Marked || errors.Is(v.err, ErrBroken) || b.on.PgConn().IsClosed() {
		return v
	}
	if left := b.backOut(ctx); left != nil {
		return fail(joinErr(v.err, left))
	}
	return v
}

// inTx returns what a verdict means in a transaction that can only be restarted as a whole.
func (b savepoint) inTx(ctx context.Context, v verdict) verdict {
	fresh := b.c.seen.Fresh
	switch {
	case v.kind == busy: // it has waited inside Postgres
		return fail(ErrInFlight)
	case v.kind == again && (!v.pause || v.conflict && fresh):
		return v
	case v.kind == again && wire.SQLState(v.err) == wire.CodeReadOnly:
		return fail(fmt.Errorf("dedup: in the caller's transaction: %w", cleaned(v.err)))
	case v.kind == again, v.conflict && !fresh:
		return fail(restartTx(cleaned(v.err)))
	case v.kind == failed && b.mayHideRecord(ctx, v.err):
		return fail(b.findNewerRecord(ctx, v.err))
	case v.kind == failed && !b.c.seen.Marked && !b.on.PgConn().IsClosed() && b.on.PgConn().TxStatus() == 'E':
		return fail(fmt.Errorf("%w (the transaction is aborted; roll it back)", v.err))
	}
	return v
}

// mayHideRecord reports whether a failure may come from a twin whose record the transaction's snapshot
// is too old to see. The effect may have read what the twin left: so every failure of an effect counts,
// whatever error it is.
func (b savepoint) mayHideRecord(ctx context.Context, err error) bool {
	pg := b.on.PgConn()
	return !b.c.seen.Fresh && b.failure.at != atOpen && !b.failure.readOnly && ctx.Err() == nil &&
		!errors.Is(err, ErrBroken) && !pg.IsClosed() && !pg.IsBusy() && pg.TxStatus() != 'I'
}

// findNewerRecord finds out whether a record that the transaction's snapshot is too old to see caused
// a failure. It claims the identity and rolls back: a claim meets whatever is committed.
func (b savepoint) findNewerRecord(ctx context.Context, cause error) error {
	var seen table.Seen
	err := b.tryClaim(ctx, &seen)
	switch {
	case err == nil && !seen.Busy && !seen.Hidden && !seen.Found:
		return cause
	case err == nil || wire.IsTransient(err) || wire.IsConnLost(err):
		return restartTx(joinErr(cleaned(cause), err))
	default:
		return joinErr(cause, fmt.Errorf("dedup: looking for a newer record: %w", err))
	}
}

// backOut rolls back to the savepoint and releases it. It is one text without arguments, which pgx
// sends in the simple protocol: in an aborted transaction nothing can be prepared.
func (b savepoint) backOut(ctx context.Context) error {
	err := b.exec(ctx, "rollback to savepoint "+b.name+"; release savepoint "+b.name)
	if err != nil {
		return fmt.Errorf("dedup: leaving the savepoint: %w", cleaned(err))
	}
	return nil
}

// exec sends sql even if the caller's context has ended. It closes a connection that still has a
// result set open, because that cannot be rolled back: nothing of the transaction can be committed
// then.
func (b savepoint) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	if b.on.PgConn().IsBusy() {
		_ = b.on.Conn().Close(ctx)
	}
	_, err := b.on.Conn().Exec(ctx, sql)
	return err
}

func restartTx(err error) error { return &Error{Answer: ErrRestartTx, Err: err} }

// checkTx returns an error if no call can be made in tx: an ErrInvalid, or an ErrRestartTx if its
// connection is lost, or that of ctx if that has ended.
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
		// Its connection may be in another's transaction by now.
		return &InvalidError{What: "call", Field: "tx", Reason: "has ended", Err: err}
	}
	if err := wire.CheckSession(pg); err != nil {
		return &InvalidError{What: "call", Field: "tx", Reason: "has a session with a client_encoding other than UTF8", Err: err}
	}
	return nil
}

// probe returns the error with which tx refuses statements. Nothing is sent.
func probe(tx pgx.Tx) error { return tx.SendBatch(context.Background(), &pgx.Batch{}).Close() }
