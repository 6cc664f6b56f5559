package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// attempt is a transaction of the library's own, or the part of a caller's that lies behind
// a savepoint: look-up, effect, record.
type attempt struct {
	c     *call
	table *table.Table
	on    *wire.Conn
	conn  *pgx.Conn
	// tx is what the effect gets, guarded.
	tx pgx.Tx
	// savepoint is the name of the caller's savepoint, empty in a transaction of the
	// library's own.
	savepoint string
	// started is now() in the transaction, which names it: the record is only written in a
	// transaction with the same.
	started time.Time
	// limit is how long the record's statement waits for a twin that does not hold the
	// identity's lock; 0 is as long as the session allows.
	limit time.Duration

	// What follows is for those who find out what a failure means.

	// failedAt is where the attempt failed. At atOpen there is nothing to explain.
	failedAt stage
	// rode is true when its statement has failed behind the gate; prepared, when it had been
	// prepared by an earlier attempt.
	rode, prepared bool
	// connLost is true when the connection was closed by then.
	connLost bool
	// blocked is how long the record waited for a lock before it gave up, 0 where it did not.
	// It may have met a twin, or a lock on the whole table.
	blocked time.Duration
	// readOnly is true when a primary has refused to write, because the transaction is read-only.
	// A standby refuses earlier, when the transaction is opened.
	readOnly bool
	// free is true when the identity was free while this attempt had it. It ends a doubt.
	free bool
}

// bracket is what an attempt lies in: a transaction of its own, or a savepoint of a caller's.
type bracket interface {
	// open begins it, takes the lock or the claim, and looks the identity up.
	open(ctx context.Context) error
	// end sends what is queued, the record's statement, and ends the bracket with it.
	end(ctx context.Context, p *wire.Pipeline) verdict
	// mend takes note of an error that says that what was prepared is of no more use.
	mend(ctx context.Context, err error)
	// free is the connection where it is outside of any transaction; nil where it is not.
	free(ctx context.Context) *pgx.Conn
	// look undoes what was done and looks for a record in a statement that sees all that is
	// committed. With claim it also shows whether a twin has the row.
	look(ctx context.Context, claim bool) error
	// close leaves nothing of the bracket behind, unless it has ended, and returns what the attempt
	// has come to.
	close(ctx context.Context, v verdict) verdict
}

// make makes the attempt, and says what a failure means.
func (a *attempt) make(ctx context.Context, b bracket) (v verdict) {
	c := a.c
	returned := false
	defer func() {
		switch {
		case returned:
		case c.endedTx:
			_ = c.recordBroken(ctx, errTxEnded, b.free(ctx)) // the panic is what is raised
		default:
			_ = b.close(ctx, fail(nil)) // likewise
		}
	}()
	c.seen = table.Seen{}
	err := b.open(ctx)
	a.started = c.seen.At
	switch {
	case err != nil:
		b.mend(ctx, err)
		v = c.unopened(ctx, err)
	default:
		var ok bool
		if v, ok = c.opened(); ok {
			v = a.perform(ctx, b)
			a.free = v.kind != done && v.kind != unknown
		}
	}
	if v.kind == failed && a.failedAt != atOpen {
		b.mend(ctx, v.err)
		v = a.explain(ctx, b, v.err)
	}
	returned = true
	return b.close(ctx, v)
}

// opened says whether to go on after the identity was looked at.
func (c *call) opened() (v verdict, ok bool) {
	switch s := &c.seen; {
	case s.Found:
		return verdict{kind: found}, false
	case s.Busy:
		return verdict{kind: busy, err: s.Held}, false
	case s.Hidden:
		return c.conflict(errHidden), false
	case c.doubt.err != nil && !c.doubt.provable(c.Forget):
		return fail(errForgotten), false
	case c.stmt.Stopped: // by a record that may be forgotten, or came just now
		c.walks = true
		return verdict{kind: again}, false
	}
	return verdict{}, true
}

// ride returns the call's statement where it may ride.
func (a *attempt) ride(ctx context.Context) *table.Rider {
	c := a.c
	r := &c.stmt.Rider
	r.Stopped, r.Err = false, nil
	if r.Read == nil || c.outcome != table.Done || c.walks || !a.table.Rides() {
		return nil
	}
	a.prepared = a.on.Prepared(r.Query)
	if a.table.PrepareRiders(ctx, a.on, r.Query) != nil {
		c.walks = true // and says why in a trip of its own
		return nil
	}
	return r
}

// perform runs the effect unless it has ridden, and writes the record.
func (a *attempt) perform(ctx context.Context, b bracket) verdict {
	c := a.c
	text, err := c.stmt.row, error(nil)
	if own, ok := b.(*ownTx); !ok || own.rider == nil {
		text, err = a.runEffect(ctx)
	} else if err = own.rider.Err; err == nil {
		err = wire.CheckSession(a.conn.PgConn())
	} else if a.rode = true; mayBeStale(err) {
		a.on.Stale(own.rider.Query)
	}
	switch {
	case err != nil:
		return a.failed(atEffect, err)
	case ctx.Err() != nil: // nothing of the end was sent: it is definite
		return fail(fmt.Errorf("dedup: before commit: %w", contextError(ctx)))
	}
	if c.discards {
		a.on.Forget()
	}
	c.written = table.NewRecord(&c.Entry, c.outcome, text)
	p := a.on.Pipeline()
	a.table.QueueRecord(p, &c.Entry, &c.written, &a.started, a.limit)
	return b.end(ctx, p)
}

// runEffect runs the effect and returns the text to record. A function runs on a guarded
// transaction, and it is checked in what state it left that. After a panic nobody reads its
// error any more, so the call notes whether it had ended its transaction.
func (a *attempt) runEffect(ctx context.Context) (text string, err error) {
	c := a.c
	if c.outcome != table.Done {
		return c.text, nil
	}
	inner := guard.Enter(ctx, c.owner(), a.tx)
	defer inner.Leave()
	returned := false
	defer func() {
		if !returned {
			c.endedTx = inner.EndedTx(ctx, a.started)
		}
	}()
	text, err = c.effect(inner, inner.Tx())
	returned = true
	return text, inner.Verdict(ctx, a.started, err)
}

// owner names the call to the effects inside it.
func (c *asked) owner() guard.Owner {
	return guard.Owner{Pool: c.d.pool, Schema: c.d.opts.Schema, Scope: c.Scope, Tool: c.Tool, Key: c.Key}
}

// sendCommit sends COMMIT behind what is queued, whose answers read reads.
func (d *Deduper) sendCommit(ctx context.Context, conn *pgx.Conn, p *wire.Pipeline, read func()) (wire.Outcome, error) {
	p.Queue(d.table().Commit)
	wire.LimitIO(conn, d.opts.CommitTimeout)
	defer wire.UnlimitIO(conn)
	p.SendUncancelled(ctx)
	read()
	return p.Commit(conn.PgConn())
}

// readRecord reads the answer to the record's statement, and returns where an error belongs
// that comes by the end of the pipeline.
func (a *attempt) readRecord(p *wire.Pipeline) stage {
	sent := p.SentAt
	table.ReadRecord(p, &a.c.Entry, &a.c.written)
	if !p.Failed() {
		return atCommit
	}
	a.blocked = time.Since(sent)
	return atRecord
}

// failed is the verdict on an attempt that failed behind the look-up. It keeps what is known
// only now.
func (a *attempt) failed(at stage, err error) verdict {
	a.failedAt = at
	if at != atRecord || wire.SQLState(err) != wire.CodeLockNotAvailable {
		a.blocked = 0
	}
	a.connLost = a.conn.IsClosed()
	a.readOnly = wire.IsReadOnlyTx(err) && a.conn.PgConn().TxStatus() == 'E'
	return fail(err)
}

// recordLimit is how long writing the record may wait for a twin that does not hold the
// identity's lock: for what is left of MaxWait, RowTimeout at least and half of CommitTimeout at
// most. 0 is no limit, where there is no MaxWait.
func (c *call) recordLimit() time.Duration {
	if c.maxWait == 0 {
		return 0
	}
	return min(max(c.maxWait-c.waits.all, table.RowTimeout), c.d.opts.CommitTimeout/2)
}

// mayBeStale reports whether types that have changed may be behind a statement's error: not
// where it says how many rows there were, that a constraint does not hold, or what a
// function raised.
func mayBeStale(err error) bool {
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, pgx.ErrTooManyRows) || wire.IsTransient(err) {
		return false
	}
	state := wire.SQLState(err)
	class := state[:min(2, len(state))]
	return class != "23" && class != "P0"
}

// ownTx is a transaction of the library's own.
type ownTx struct {
	*attempt
	pooled *pgxpool.Conn // nil where the connection is somebody else's, or has been given back
	rider  *table.Rider  // what has ridden with open
}

func (b *ownTx) open(ctx context.Context) error {
	b.rider = b.ride(ctx)
	if err := b.table.Open(ctx, b.on, &b.c.Entry, &b.c.seen, b.rider); err != nil {
		return err
	}
	b.c.renewed = 0
	b.tx = b.c.seen.Tx
	return nil
}

// end sends the record and COMMIT. It runs on a context of its own: cancelling it would
// turn the outcome into a guess, and make pgx cancel a wait for a synchronous standby, which
// shows a commit that is not replicated (measured).
func (b *ownTx) end(ctx context.Context, p *wire.Pipeline) verdict {
	at := atRecord
	switch outcome, err := b.c.d.sendCommit(ctx, b.conn, p, func() { at = b.readRecord(p) }); outcome {
	case wire.Committed:
		return verdict{kind: done}
	case wire.Unknown:
		return verdict{kind: unknown, err: err}
	default:
		return b.failed(at, err)
	}
}

func (b *ownTx) mend(ctx context.Context, err error) {
	wire.DropUnusable(ctx, b.conn, err)
}

// free rolls back. A connection that is lost gives its place in the pool to another one.
func (b *ownTx) free(ctx context.Context) *pgx.Conn {
	wire.Rollback(ctx, b.conn)
	if !b.conn.IsClosed() {
		return b.conn
	}
	b.giveBack(ctx)
	return nil
}

func (b *ownTx) giveBack(ctx context.Context) {
	if b.pooled != nil {
		b.c.d.release(ctx, b.pooled)
		b.pooled = nil
	}
}

func (b *ownTx) look(ctx context.Context, claim bool) error {
	how := (*table.Table).Peek
	if claim {
		how = (*table.Table).TryClaim
	}
	if b.free(ctx) != nil {
		err := how(b.table, ctx, b.on, &b.c.Entry, &b.c.seen)
		if wire.SQLState(err) != wire.CodePreparedMissing {
			return err
		}
		_ = b.conn.Close(ctx)
		b.giveBack(ctx)
	}
	return b.c.d.look(ctx, &b.c.Entry, &b.c.seen, how)
}

func (b *ownTx) close(ctx context.Context, v verdict) verdict {
	if b.c.discards {
		_ = b.conn.Close(ctx) // pgx does not know that its statements are gone
	}
	return v
}
