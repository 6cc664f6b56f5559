package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// This file is one attempt of a call: from the look-up to the record, or to the record of a broken
// call if its effect ended the transaction. attempts.go decides whether another attempt follows.
// CONTRIBUTING.md has a table of the places of a call's steps.

// attempt is one try of a call: look the identity up, run the effect, write the record.
type attempt struct {
	c     *call
	table *table.Table
	on    *wire.Conn
	// tx is the effect's transaction, before it is guarded.
	tx pgx.Tx
	// rider is the call's statement if it rode with the look-up, else nil.
	rider *table.Rider
	// started is now() in the transaction. It identifies the transaction: the record is only
	// written in one with the same now().
	started time.Time
	// limit bounds how long the record's statement waits for a twin that does not hold the
	// identity's lock. With 0 only the session's own lock_timeout bounds the wait, and in the
	// library's own transaction CommitTimeout, after which the COMMIT is lost.
	limit time.Duration
	// inOwnTx is true in the library's own transaction, which makeAttempts may repeat.
	inOwnTx bool
	// failure is set if the attempt fails after the look-up.
	failure failure
	// noneCommitted is true if the attempt proved that no earlier attempt was committed. Only
	// makeAttempts reads it: DoTx sends no COMMIT.
	noneCommitted bool
}

// transaction is a transaction of the library (ownTx in tx.go), or a savepoint in the caller's
// (savepoint in dotx.go). An attempt runs in it.
type transaction interface {
	// open begins, takes the lock or the claim, and looks the identity up.
	open(ctx context.Context) error
	// end sends the queued statement of the record, and COMMIT or RELEASE in the same trip.
	end(ctx context.Context, p *wire.Pipeline) ending
	// dropUnusable acts if err makes the connection or its prepared statements unusable: ownTx
	// closes the connection, and savepoint invalidates the statements.
	dropUnusable(ctx context.Context, err error)
	// idleConn returns the connection if it is outside any transaction, else nil. ownTx rolls back
	// first.
	idleConn(ctx context.Context) *wire.Conn
	// runNext runs another attempt, in a transaction of the library on the idle connection.
	runNext(ctx context.Context, next *attempt) ending
	// letGo closes ownTx's connection and gives it back, because the pool may have no other one.
	// The caller of savepoint keeps its connection.
	letGo(ctx context.Context)
	// look rolls back and looks for a record in a new statement. ownTx sees everything committed.
	// savepoint sees it unless the caller's snapshot is older (mayHideRecord). With claim it also
	// detects a twin that holds the row but not the lock.
	look(ctx context.Context, claim bool) error
	// close cleans up after the attempt and returns the final ending. savepoint rolls a failed
	// attempt back; ownTx leaves that to giveBack.
	close(ctx context.Context, end ending) ending
}

// makeAttempt makes one attempt in a new transaction of the library. It takes three round trips if
// the identity is free, two if there is a record or a twin, and two if the effect is a statement
// that rides with the look-up.
func (c *call) makeAttempt(ctx context.Context) ending {
	c.attempts++
	c.current = attempt{c: c, inOwnTx: true}
	pooled, err := c.d.acquire(ctx)
	if err != nil {
		return c.openFailed(ctx, err)
	}
	own := &ownTx{attempt: &c.current, pooled: pooled}
	defer func() { own.giveBack(ctx) }() // rolls back, after a panic too
	if err := c.d.checkTable(ctx, pooled.Conn()); err != nil {
		wire.DropUnusable(ctx, pooled.Conn(), err)
		return c.openFailed(ctx, err)
	}
	return own.runOn(ctx, wire.On(pooled.Conn()))
}

// run runs the attempt in tx and resolves a failure.
func (a *attempt) run(ctx context.Context, tx transaction) (end ending) {
	c := a.c
	returned := false
	defer func() {
		switch {
		case returned:
		case c.endedTx:
			_ = c.recordBroken(ctx, guard.ErrTxEnded, tx) // the caller gets the panic
		default:
			_ = tx.close(ctx, fail(nil))
		}
	}()
	c.seen = table.Seen{}
	err := tx.open(ctx)
	a.started = c.seen.Started
	if err != nil {
		tx.dropUnusable(ctx, err)
		end = c.openFailed(ctx, err)
	} else if early, ok := c.mayRun(); !ok {
		end = early
	} else {
		end = a.runAndRecord(ctx, tx)
		a.noneCommitted = end.kind != done && end.kind != unknown && a.table.FreeIsProof()
	}
	if end.kind == failed && a.failure.at != notFailed {
		tx.dropUnusable(ctx, end.err)
		end = a.resolveFailure(ctx, tx, end.err)
	}
	returned = true
	return tx.close(ctx, end)
}

// mayRun reports whether the effect may run, by the result of the look-up. If not, end ends the
// attempt.
func (c *call) mayRun() (end ending, ok bool) {
	switch s := &c.seen; {
	case s.Found:
		return ending{kind: found}, false
	case s.Busy:
		return ending{kind: busy, err: s.Held}, false
	case s.Hidden:
		return c.conflict(errHidden), false
	case c.lost.err != nil && !c.lost.provable(c.Forget):
		return fail(errForgotten), false
	case c.stmt.Stopped: // by a forgotten record, or by one that was written after the look-up
		c.separateTrip = true
		return ending{kind: again}, false
	}
	return ending{}, true
}

// runAndRecord runs the effect, unless its statement rode with the look-up, and writes the record.
func (a *attempt) runAndRecord(ctx context.Context, tx transaction) ending {
	c := a.c
	text, err := a.recordText(ctx)
	switch {
	case err != nil:
		return a.failAt(atEffect, err)
	case ctx.Err() != nil: // nothing is committed: neither the record nor COMMIT was sent
		return fail(beforeCommit(ctx))
	}
	if c.discarded {
		a.on.InvalidateAll()
	}
	c.written = table.NewRecord(&c.Entry, c.written.Outcome, text)
	p := a.on.Pipeline()
	a.table.QueueRecord(p, &c.Entry, &c.written, &a.started, a.insertLimit())
	return tx.end(ctx, p)
}

// beforeCommit is the error of a call whose context ended before its record was sent.
func beforeCommit(ctx context.Context) error {
	return fmt.Errorf("dedup: before commit: %w", contextError(ctx))
}

// recordText returns the text to record. If the statement rode with the look-up, its row is the
// text. Otherwise recordText runs the effect.
func (a *attempt) recordText(ctx context.Context) (text string, err error) {
	if a.rider == nil {
		return a.runEffect(ctx)
	}
	if err := a.rider.Err; err != nil {
		if a.failure.rode = true; mayBeStale(err) {
			a.on.Invalidate(a.rider.Query)
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
			c.endedTx = a.callersTxEnded() || inner.EndedTx(ctx, a.started)
		}
	}()
	text, err = c.effect(inner, inner.Tx())
	returned = true
	if err == nil && ctx.Err() != nil { // the guard must examine the transaction, because no record's statement will
		err = beforeCommit(ctx)
	}
	if a.callersTxEnded() {
		return text, guard.ErrTxEnded
	}
	return text, inner.Check(ctx, a.started, err)
}

// callersTxEnded reports whether the effect ended the caller's transaction by the transaction's own
// method. Its connection may then be another call's.
func (a *attempt) callersTxEnded() bool {
	return !a.inOwnTx && errors.Is(probe(a.tx), pgx.ErrTxClosed)
}

// probe returns the error that tx returns for every statement, nil if it takes statements. It sends
// nothing.
func probe(tx pgx.Tx) error { return tx.SendBatch(context.Background(), &pgx.Batch{}).Close() }

// owner identifies the call and its database for calls inside its effect.
func (c *request) owner(on *wire.Conn) guard.Owner {
	return guard.Owner{Database: on.Database(), Schema: c.d.opts.Schema, Scope: c.Scope, Tool: c.Tool, Key: c.Key}
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
// CommitTimeout. Without a MaxWait it is 0, as in the attempt's limit.
func (c *call) recordLimit() time.Duration {
	if c.maxWait == 0 {
		return 0
	}
	return min(max(c.maxWait-c.waits.all, table.RowTimeout), c.d.opts.CommitTimeout/2)
}

// insertLimit bounds how long the record's statement waits. A claim holds the row already.
func (a *attempt) insertLimit() time.Duration {
	if a.table.Profile.Claims {
		return 0
	}
	return a.limit
}

// recordBroken blocks the identity of a call whose effect ended its own transaction, so that a
// retry cannot repeat an effect that may be committed. It continues after the caller's context
// ends. It uses the connection of tx first, because all others of the pool may be in use. If the
// effect made that unusable, or if tx is nil, recordBroken takes one from the pool.
//
// If calls take locks, the identity was free from the moment at which the effect ended the
// transaction. If a twin has run since, the error reports it.
func (c *call) recordBroken(ctx context.Context, cause error, tx transaction) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.d.opts.CommitTimeout)
	defer cancel()
	err := c.named(Error{Kind: ErrBroken, Err: redact(cause)})
	block := &call{request: c.request, written: table.Record{Outcome: table.Broken}}
	block.lookFirst = false
	block.span.ctx, block.span.call, block.span.began = c.span.ctx, c.span.call, c.span.began
	if tx != nil && tx.idleConn(ctx) != nil {
		block.current = attempt{c: block, inOwnTx: true}
		end := tx.runNext(ctx, &block.current)
		on := tx.idleConn(ctx)
		if end.kind == done && !block.written.CreatedAt.IsZero() || end.kind == found && block.seen.Record.IsBroken() {
			err.Err = joinErr(err.Err, c.d.auditBroken(ctx, on, &c.Identity, cause))
			return err
		}
		tx.letGo(ctx)
	}
	failed := errOtherDatabase
	if c.current.inOwnTx || c.current.on.Database() == c.d.database {
		failed = block.makeAttempts(ctx)
	}
	switch {
	case failed != nil: // not wrapped: if it is transient, the call still is not
		err.Err = fmt.Errorf("%w (and it could not be recorded: %s)", err.Err, failed.Error())
	case !block.executed && !block.rec.IsBroken():
		err.Err = fmt.Errorf("%w (and a twin has run and recorded the call since)", err.Err)
	default:
		err.Err = joinErr(err.Err, c.d.auditBroken(ctx, nil, &c.Identity, cause))
	}
	return err
}

// errOtherDatabase keeps the broken record of a DoTx in another database out of the pool's.
var errOtherDatabase = errors.New("the transaction's database is not that of the pool")

// auditBroken writes a line of the audit, which lists broken records for operators. An index on the
// records would list them too, but would slow every claim and record down. The record is valid
// without the line.
func (d *Deduper) auditBroken(ctx context.Context, on *wire.Conn, id *table.Identity, cause error) error {
	if on == nil {
		pooled, err := d.acquire(ctx)
		if err != nil {
			return fmt.Errorf("dedup: writing the audit: %w", err)
		}
		defer d.release(ctx, pooled)
		on = wire.On(pooled.Conn())
	}
	if err := d.table().AuditBroken(ctx, on.Conn(), d.opts.CommitTimeout, id, redact(cause).Error()); err != nil {
		return fmt.Errorf("dedup: writing the audit: %w", redact(err))
	}
	return nil
}
