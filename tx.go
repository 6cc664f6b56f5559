package dedup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// attempt is one try of a call: look the identity up, run the effect, write the record. It runs in
// a bracket: the library's own transaction, or a savepoint in the caller's.
type attempt struct {
	c     *call
	table *table.Table
	on    *wire.Conn
	// tx is the effect's transaction, before it is guarded.
	tx pgx.Tx
	// started is now() in the transaction. It identifies the transaction: the record is only
	// written in one with the same now().
	started time.Time
	// limit bounds how long the record's statement waits for a twin that does not hold the
	// identity's lock; 0 is as long as the session allows.
	limit time.Duration
	// inOwnTx is true in the library's own transaction, which run may repeat.
	inOwnTx bool
	// failure is set if the attempt fails after the look-up.
	failure failure
	// noneCommitted is true if the attempt proved that no earlier attempt was committed.
	noneCommitted bool
}

// bracket is the transaction scope of an attempt: ownTx, or savepoint in dotx.go.
type bracket interface {
	// open begins the bracket, takes the lock or the claim, and looks the identity up.
	open(ctx context.Context) error
	// end sends the queued statement of the record and ends the bracket in the same trip.
	end(ctx context.Context, p *wire.Pipeline) verdict
	// dropUnusable acts if err makes the connection or its prepared statements unusable: ownTx
	// closes the connection, and savepoint invalidates the statements.
	dropUnusable(ctx context.Context, err error)
	// idleConn returns the connection if it is outside any transaction, else nil. ownTx rolls back
	// first.
	idleConn(ctx context.Context) *wire.Conn
	// look rolls back and looks for a record in a statement that sees everything committed. With
	// claim it also detects a twin that holds the row but not the lock.
	look(ctx context.Context, claim bool) error
	// close ends a bracket that is still open, and returns the final verdict.
	close(ctx context.Context, v verdict) verdict
}

// make runs the attempt and resolves a failure.
func (a *attempt) make(ctx context.Context, b bracket) (v verdict) {
	c := a.c
	returned := false
	defer func() {
		switch {
		case returned:
		case c.endedTx:
			_ = c.recordBroken(ctx, guard.ErrTxEnded, b.idleConn(ctx)) // the caller gets the panic
		default:
			_ = b.close(ctx, fail(nil))
		}
	}()
	c.seen = table.Seen{}
	err := b.open(ctx)
	a.started = c.seen.At
	if err != nil {
		b.dropUnusable(ctx, err)
		v = c.openFailed(ctx, err)
	} else if early, ok := c.mayRun(); !ok {
		v = early
	} else {
		v = a.perform(ctx, b)
		a.noneCommitted = v.kind != done && v.kind != unknown && a.table.FreeIsProof()
	}
	if v.kind == failed && a.failure.at != atOpen {
		b.dropUnusable(ctx, v.err)
		v = a.resolveFailure(ctx, b, v.err)
	}
	returned = true
	return b.close(ctx, v)
}

// mayRun reports whether the effect may run, by the result of the look-up. If not, v ends the
// attempt.
func (c *call) mayRun() (v verdict, ok bool) {
	switch s := &c.seen; {
	case s.Found:
		return verdict{kind: found}, false
	case s.Busy:
		return verdict{kind: busy, err: s.Held}, false
	case s.Hidden:
		return c.conflict(errHidden), false
	case c.lost.err != nil && !c.lost.provable(c.Forget):
		return fail(errForgotten), false
	case c.stmt.Stopped: // by a forgotten record, or by one that was written after the look-up
		c.separateTrip = true
		return verdict{kind: again}, false
	}
	return verdict{}, true
}

// perform runs the effect, unless its statement rode with the look-up, and writes the record.
func (a *attempt) perform(ctx context.Context, b bracket) verdict {
	c := a.c
	text, err := a.recordText(ctx, b)
	switch {
	case err != nil:
		return a.failed(atEffect, err)
	case ctx.Err() != nil: // nothing is committed: neither the record nor COMMIT was sent
		return fail(beforeCommit(ctx))
	}
	if c.discarded {
		a.on.InvalidateAll()
	}
	c.written = table.NewRecord(&c.Entry, c.written.Outcome, text)
	p := a.on.Pipeline()
	a.table.QueueRecord(p, &c.Entry, &c.written, &a.started, a.limit)
	return b.end(ctx, p)
}

// beforeCommit is the error of a call whose context ended before its record was sent.
func beforeCommit(ctx context.Context) error {
	return fmt.Errorf("dedup: before commit: %w", contextError(ctx))
}

// recordText returns the text to record. If the statement rode with the look-up, its row is the
// text. Otherwise recordText runs the effect.
func (a *attempt) recordText(ctx context.Context, b bracket) (text string, err error) {
	own, ok := b.(*ownTx)
	if !ok || own.rider == nil {
		return a.runEffect(ctx)
	}
	if err := own.rider.Err; err != nil {
		if a.failure.rode = true; mayBeStale(err) {
			a.on.Invalidate(own.rider.Query)
		}
		return "", err
	}
	return a.c.stmt.row, wire.CheckSession(a.on.PgConn())
}

// runEffect runs the effect on a guarded transaction and returns the text to record. If the attempt
// records a refusal or a broken call, the text is already known, and no effect runs. After the
// effect, runEffect checks the transaction. If the effect panics, the call keeps whether its
// transaction has ended.
func (a *attempt) runEffect(ctx context.Context) (text string, err error) {
	c := a.c
	if c.written.Outcome != table.Done {
		return c.written.Result, nil
	}
	inner := guard.Enter(ctx, c.owner(a.on), a.tx)
	defer inner.Leave()
	returned := false
	defer func() {
		if !returned {
			c.endedTx = inner.EndedTx(ctx, a.started)
		}
	}()
	text, err = c.effect(inner, inner.Tx())
	returned = true
	if err == nil && ctx.Err() != nil { // the guard must examine the transaction, because no record's statement will
		err = beforeCommit(ctx)
	}
	return text, inner.Check(ctx, a.started, err)
}

// owner identifies the call and its database for calls inside its effect.
func (c *request) owner(on *wire.Conn) guard.Owner {
	return guard.Owner{Database: on.Database(), Schema: c.d.opts.Schema, Scope: c.Scope, Tool: c.Tool, Key: c.Key}
}

// sendCommit sends a pipeline that ends with COMMIT. read reads the replies before COMMIT.
func (d *Deduper) sendCommit(ctx context.Context, conn *pgx.Conn, p *wire.Pipeline, read func()) (wire.Outcome, error) {
	wire.LimitIO(conn, d.opts.CommitTimeout)
	defer wire.UnlimitIO(conn)
	p.SendUncancelled(ctx)
	read()
	return p.Commit(conn.PgConn())
}

// readRecord reads the reply to the record's statement. It returns the stage at which the attempt
// failed if the pipeline returns an error.
func (a *attempt) readRecord(p *wire.Pipeline) stage {
	sent := p.SentAt
	table.ReadRecord(p, &a.c.Entry, &a.c.written)
	if !p.Failed() {
		return atCommit
	}
	a.failure.blocked = time.Since(sent)
	return atRecord
}

// recordLimit bounds how long the record's statement waits for a twin that does not hold the
// identity's lock. It is the rest of MaxWait, at least RowTimeout and at most half of
// CommitTimeout. Without a MaxWait it is 0, which sets no limit.
func (c *call) recordLimit() time.Duration {
	if c.maxWait == 0 {
		return 0
	}
	return min(max(c.maxWait-c.waits.all, table.RowTimeout), c.d.opts.CommitTimeout/2)
}

// ownTx is a transaction of the library.
type ownTx struct {
	*attempt
	pooled *pgxpool.Conn // nil if another function owns the connection, or if it was released
	rider  *table.Rider  // the statement that rode with open, nil if none did
}

func (b *ownTx) open(ctx context.Context) error {
	b.rider = b.ride(ctx)
	if err := b.table.Open(ctx, b.on, &b.c.Entry, &b.c.seen, b.rider); err != nil {
		return err
	}
	b.c.preparedMissing = 0
	b.tx = b.c.seen.Tx
	return nil
}

// ride returns the call's statement if it may ride with the look-up, else nil.
func (b *ownTx) ride(ctx context.Context) *table.Rider {
	c := b.c
	r := &c.stmt.Rider
	r.Stopped, r.Err = false, nil
	if r.Read == nil || c.written.Outcome != table.Done || c.separateTrip || !b.table.Rides() {
		return nil
	}
	b.failure.described = b.on.Described(r.Query)
	if b.table.PrepareRiders(ctx, b.on, r.Query) != nil {
		c.separateTrip = true // where the error is reported
		return nil
	}
	return r
}

// end sends the record and COMMIT in one trip. It ignores the caller's context: a cancelled COMMIT
// has an unknown outcome, and pgx's cancel request makes Postgres show a commit that no standby has
// (measured).
func (b *ownTx) end(ctx context.Context, p *wire.Pipeline) verdict {
	p.Queue(b.table.Commit)
	at := atRecord
	switch outcome, err := b.c.d.sendCommit(ctx, b.on.Conn(), p, func() { at = b.readRecord(p) }); outcome {
	case wire.Committed:
		return verdict{kind: done}
	case wire.Unknown:
		return verdict{kind: unknown, err: err}
	default:
		return b.failed(at, err)
	}
}

func (b *ownTx) dropUnusable(ctx context.Context, err error) {
	wire.DropUnusable(ctx, b.on.Conn(), err)
}

// idleConn rolls back. It releases a lost connection to the pool, which makes a new one.
func (b *ownTx) idleConn(ctx context.Context) *wire.Conn {
	wire.Rollback(ctx, b.on.Conn())
	if !b.on.Conn().IsClosed() {
		return b.on
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
	if b.idleConn(ctx) != nil {
		err := how(b.table, ctx, b.on, &b.c.Entry, &b.c.seen)
		if wire.SQLState(err) != wire.CodePreparedMissing {
			return err
		}
		_ = b.on.Conn().Close(ctx)
		b.giveBack(ctx)
	}
	return b.c.d.look(ctx, &b.c.Entry, &b.c.seen, how)
}

func (b *ownTx) close(ctx context.Context, v verdict) verdict {
	if b.c.discarded {
		_ = b.on.Conn().Close(ctx) // pgx does not know that its statements are gone
	}
	return v
}
