package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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
	// latest is the last moment at which the server takes a combined statement. In a batch only
	// the first call's is set.
	latest time.Time
	// limit is how long the record's statement waits for a twin that does not hold the
	// identity's lock; 0 is as long as the session allows.
	limit time.Duration

	// What follows is for those who find out what a failure means.

	// failedAt is where the attempt failed. At atOpen there is nothing to explain.
	failedAt stage
	// raised is true when the effect is a statement and the server refused it; prepared, when
	// it had been prepared by an earlier attempt.
	raised, prepared bool
	// connLost is true when the connection was closed by then.
	connLost bool
	// blocked is how long the record waited for a lock before it gave up, 0 where it did not.
	// It may have met a twin, or a lock on the whole table.
	blocked time.Duration
	// readOnly is true when a primary has refused to write, because the transaction is read-only.
	// A standby refuses earlier, when the transaction is opened.
	readOnly bool
	// free is true when the identity was free while this attempt had it. It ends a doubt if the
	// attempt began after doubt.until.
	free bool
}

// attemptOn makes an attempt in a transaction of its own. It may leave one open.
func (c *call) attemptOn(ctx context.Context, conn *pgx.Conn) verdict {
	a := &c.last
	*a = attempt{c: c, table: c.d.table(), on: wire.On(conn), conn: conn}
	c.seen = table.Seen{}
	if err := a.table.Open(ctx, a.on, &c.Entry, &c.seen); err != nil {
		wire.DropUnusable(ctx, conn, err)
		if wire.SQLState(err) == wire.CodeUniqueViolation { // of a claim
			return c.conflict(err)
		}
		return c.unopened(ctx, err)
	}
	c.renewed = 0
	c.d.clock.seen(c.seen.At)
	a.tx, a.started = c.seen.Tx, c.seen.At
	if v, ok := c.opened(); !ok {
		return v
	}
	a.limit = c.recordLimit()
	v := a.perform(ctx)
	if c.discards {
		_ = conn.Close(ctx) // pgx does not know that its statements are gone
	}
	if v.kind != done && v.kind != unknown {
		a.free = a.table.FreeIsProof()
		wire.DropUnusable(ctx, conn, v.err)
	}
	return v
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
	}
	return verdict{}, true
}

// perform runs the effect, writes the record, and ends the transaction or the savepoint.
func (a *attempt) perform(ctx context.Context) verdict {
	text, err := a.runEffect(ctx)
	switch {
	case err != nil:
		return a.failed(atEffect, err)
	case ctx.Err() != nil: // nothing of the end was sent: it is definite
		return fail(fmt.Errorf("dedup: before commit: %w", contextError(ctx)))
	}
	c := a.c
	if c.discards {
		a.on.Forget()
	}
	c.written = table.NewRecord(&c.Entry, c.outcome, text)
	p := a.on.Pipeline()
	a.table.QueueRecord(p, &c.Entry, &c.written, &a.started, a.limit)
	if a.savepoint != "" {
		return a.release(ctx, p)
	}
	return a.commit(ctx, p)
}

// runEffect runs the effect and returns the text to record. A function runs on a guarded
// transaction, and it is checked in what state it left that. After a panic nobody reads its
// error any more, so the call notes whether it had ended its transaction.
func (a *attempt) runEffect(ctx context.Context) (text string, err error) {
	c := a.c
	switch {
	case c.outcome != table.Done:
		return c.text, nil
	case c.effect == nil:
		return a.runStatement(ctx)
	}
	inner := guard.Enter(ctx, c.owner(), a.tx)
	defer inner.Leave()
	returned := false
	defer func() {
		if !returned {
			c.endedTx = inner.EndedTx(ctx, a.started)
		}
	}()
	c.flight.inEffect.Store(true)
	defer c.flight.inEffect.Store(false)
	text, err = c.effect(inner, inner.Tx())
	returned = true
	return text, inner.Verdict(ctx, a.started, err)
}

// owner names the call to the effects inside it.
func (c *asked) owner() guard.Owner {
	return guard.Owner{Pool: c.d.pool, Schema: c.d.opts.Schema, Scope: c.Scope, Tool: c.Tool, Key: c.Key}
}

// runStatement runs an effect that is one statement.
func (a *attempt) runStatement(ctx context.Context) (string, error) {
	c, q := a.c, a.c.stmt.effect
	a.prepared = a.on.Prepared(q)
	refused := func(err error) (string, error) {
		a.raised = true
		if mayBeStale(err) {
			a.on.Stale(q)
		}
		return "", err
	}
	if err := a.on.Prepare(ctx, q); err != nil {
		a.raised = wire.IsRaised(err) && !a.on.Knows(q)
		return "", err
	}
	p := a.on.CallersPipeline()
	if err := p.QueueArgs(q, c.stmt.args); err != nil {
		return refused(err)
	}
	c.flight.inEffect.Store(true)
	defer c.flight.inEffect.Store(false)
	p.Send(ctx)
	var rows int64
	var row pgtype.Text
	p.Scan(&rows, &row)
	failed := p.Failed()
	switch err := p.Close(); {
	case failed:
		return refused(err)
	case err != nil:
		return "", err
	case rows == 0:
		return refused(pgx.ErrNoRows)
	case rows > 1:
		return refused(pgx.ErrTooManyRows)
	}
	if err := checkStorable([]byte(row.String), c.d.opts.MaxResultBytes); err != nil {
		return "", err
	}
	return row.String, wire.CheckSession(a.conn.PgConn())
}

// commit sends the record and COMMIT. It runs on a context of its own: cancelling it would
// turn the outcome into a guess, and make pgx cancel a wait for a synchronous standby, which
// shows a commit that is not replicated (measured).
func (a *attempt) commit(ctx context.Context, p *wire.Pipeline) verdict {
	p.Queue(a.table.Commit)
	wire.LimitIO(a.conn, a.c.d.opts.CommitTimeout)
	defer wire.UnlimitIO(a.conn)
	p.SendUncancelled(ctx)
	at := a.readRecord(p)
	switch outcome, err := p.Commit(a.conn.PgConn()); outcome {
	case wire.Committed:
		return verdict{kind: done}
	case wire.Unknown:
		return verdict{kind: unknown, err: err, until: a.c.d.doubtAtCommit(a.table, err)}
	default:
		return a.failed(at, err)
	}
}

// release sends the record and the savepoint's RELEASE.
func (a *attempt) release(ctx context.Context, p *wire.Pipeline) verdict {
	p.Ignore(wire.Query{Text: "release savepoint " + a.savepoint})
	p.Send(ctx)
	at := a.readRecord(p)
	if err := p.Close(); err != nil {
		return a.failed(at, err)
	}
	return verdict{kind: done}
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

// doubtAtCommit returns the doubt.until of a COMMIT that err leaves in doubt. A claim and, on
// plain PostgreSQL, a lock are held until the commit has ended. Where a server in between passed
// the COMMIT on, the lock is free while another server may still commit: never.
func (d *Deduper) doubtAtCommit(t *table.Table, err error) (until time.Time) {
	if d.opts.Order == LockFirst && (wire.IsRaised(err) || !t.Profile.LockProves) {
		return never
	}
	return time.Time{}
}

// recordLimit is how long writing the record may wait for a twin that does not hold the
// identity's lock. A call without its own lock may well have a twin, and hardly waits. One with
// MaxWait waits for what is left of that and RowTimeout more, but for half of CommitTimeout at
// most. One without MaxWait has no limit.
func (c *call) recordLimit() time.Duration {
	switch limit := c.inPostgres(); {
	case !c.seen.Locked:
		return table.RowTimeout
	case c.maxWait > 0:
		return min(max(limit-c.waits.all, 0)+table.RowTimeout, c.d.opts.CommitTimeout/2)
	default:
		return limit
	}
}

// inPostgres is how long a call may wait inside Postgres for somebody; 0 is as long as the
// session allows.
func (c *asked) inPostgres() time.Duration {
	if c.maxWait < 0 {
		return table.RowTimeout
	}
	return c.maxWait
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
