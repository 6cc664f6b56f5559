package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The way of a call, top down:
//
//	do       one leader per identity and process (flight.go)
//	run      attempts, pauses between them, waiting for twins (retry.go)
//	attempt  one transaction: {BEGIN; lock; look-up}, effect, {INSERT; COMMIT}
//	resolve  what a failure means (constraint.go)

// work is what an attempt does between look-up and record: it returns the text
// to record, or an error.
type work func(ctx context.Context, tx pgx.Tx) (text string, err error)

// noWork is for records without a result.
func noWork(context.Context, pgx.Tx) (string, error) { return "", nil }

// attemptState says what one attempt came to.
type attemptState int

const (
	attemptExecuted  attemptState = iota // committed; rec was written
	attemptFound                         // rec was there
	attemptBusy                          // a twin is in flight; with err somebody else has the row
	attemptHeld                          // rolled back; a twin without the lock was in the record's way
	attemptRetry                         // transient; certainly not committed
	attemptConflict                      // unique violation without a record; not committed
	attemptUnknown                       // the answer to COMMIT was lost
	attemptRefusal                       // rolled back; err is to be recorded
	attemptBroken                        // the effect ended its transaction
	attemptFailed                        // err is the call's own; not committed
	attemptUndecided                     // rolled back; failure is to be resolved
	attemptAgain                         // rolled back; another attempt, apart, will tell
)

// attempt is what one attempt came to.
type attempt struct {
	state   attemptState
	rec     record
	err     error
	failure failure
	// alone tells that the identity was free and this attempt had it: whatever
	// an earlier attempt left unknown has ended without a record.
	alone bool
	// sent is when the COMMIT was sent whose answer was lost, or earlier.
	sent time.Time
}

// attempt makes one transaction of its own: three round trips when the identity
// is free, two when there is a record or a twin.
func (c *doCall) attempt(ctx context.Context) attempt {
	pooled, err := c.d.acquire(ctx)
	if err != nil {
		return c.d.unstarted(ctx, err)
	}
	defer c.d.release(ctx, pooled) // rolls back, after a panic too
	conn := pooled.Conn()
	if err := c.d.trustArbiter(ctx, conn); err != nil {
		return c.unopened(ctx, conn, err)
	}
	if c.sendsWhole(conn) {
		return c.attemptWhole(ctx, conn)
	}
	return c.attemptOn(ctx, conn)
}

// attemptOn is attempt on a connection that is in no transaction. It may leave
// one open.
func (c *doCall) attemptOn(ctx context.Context, conn *pgx.Conn) attempt {
	d := c.d
	open, err := d.order.open(ctx, lineOf(conn), c.req)
	if err == nil {
		c.renewed = 0
	}
	switch {
	case sqlState(err) == codeUniqueViolation: // of a claim
		return attempt{state: attemptConflict, err: err}
	case err != nil:
		return c.unopened(ctx, conn, err)
	case open.found:
		return attempt{state: attemptFound, rec: open.rec}
	case open.busy:
		return attempt{state: attemptBusy, err: open.held}
	case open.hidden:
		return attempt{state: attemptConflict}
	case !c.provable():
		return attempt{state: attemptFailed, err: errForgotten}
	}

	text, err := d.perform(ctx, c.req, &open, c.work, c.flight, &c.gone)
	if err != nil {
		lost := conn.IsClosed()
		dropSpoiled(ctx, conn, err)
		return attempt{state: attemptUndecided, alone: d.conclusive(), failure: failure{err: err, lost: lost}}
	}
	if ctx.Err() != nil { // nothing was sent yet: a definite end
		return attempt{state: attemptFailed, err: fmt.Errorf("dedup: before commit: %w", contextError(ctx)), alone: d.conclusive()}
	}

	sent := time.Now()
	limit := c.recordLimit()
	rec, what, atRecord, err := d.commit(ctx, conn, c.req, &open, c.out, text, limit)
	switch {
	case what == commitDone && err == errSwallowed:
		d.distrust() // and let the next call say what is wrong
		return attempt{state: attemptBroken, err: err}
	case what == commitDone:
		return attempt{state: attemptExecuted, rec: rec}
	case what == commitUnknown:
		return attempt{state: attemptUnknown, err: err, sent: sent}
	case atRecord && limit != 0 && sqlState(err) == codeLockNotAvailable:
		c.patience.waited += limit
		return attempt{state: attemptHeld, alone: d.conclusive()}
	default:
		lost := conn.IsClosed()
		dropSpoiled(ctx, conn, err)
		return attempt{state: attemptUndecided, alone: d.conclusive(), failure: failure{err: err, atRecord: atRecord, lost: lost}}
	}
}

// recordLimit is how long writing the record may wait for a twin that does not
// hold the identity's lock; 0 where the call waits for as long as its context
// lives, which CommitTimeout bounds here.
func (c *doCall) recordLimit() time.Duration {
	switch max := c.patience.max; {
	case max < 0:
		return claimTimeout
	case max == 0:
		return 0
	default:
		return min(max-c.patience.waited+claimTimeout, c.d.opts.CommitTimeout/2)
	}
}

// unopened is what an attempt came to that failed before its transaction was open.
func (c *doCall) unopened(ctx context.Context, conn *pgx.Conn, err error) attempt {
	dropSpoiled(ctx, conn, err)
	if sqlState(err) == codePreparedMissing && c.renewed < c.d.pool.Stat().MaxConns() {
		c.renewed++ // somebody has discarded what was prepared
		return attempt{state: attemptAgain, err: err}
	}
	return c.d.unstarted(ctx, hintPooler(err))
}

// conclusive tells whether finding an identity free proves that earlier attempts
// have ended without a record. It does where the look-up is younger than the
// lock; at stricter levels both share one snapshot, which is older.
func (d *Deduper) conclusive() bool {
	return d.opts.Isolation == pgx.ReadCommitted || d.opts.Order == ClaimFirst
}

// perform runs work on a guarded transaction and checks in what state it left
// it.
//
// After a panic of the work nobody reads its error any more, so gone tells
// whether it had ended its transaction.
func (d *Deduper) perform(ctx context.Context, req *request, open *opening, work work, f *flight, gone *bool) (string, error) {
	inner := d.enterEffect(ctx, req.identity)
	defer inner.scope.ended.Store(true)
	guard := inner.guard.guard(open.tx)
	defer guard.closed.Store(true)
	returned := false
	defer func() {
		if !returned {
			*gone = guard.verdict(ctx, open.started, errPanicked) == errTxGone
		}
	}()
	if f != nil {
		f.running.Store(true)
		defer f.running.Store(false)
	}
	text, err := work(inner, guard)
	returned = true
	return text, guard.verdict(ctx, open.started, err)
}

// unstarted classifies an error before anything was written.
func (d *Deduper) unstarted(ctx context.Context, err error) attempt {
	err = d.explained(err)
	if d.mayRetry(ctx, err) {
		return attempt{state: attemptRetry, err: err}
	}
	if errors.Is(err, ErrArbiter) {
		return attempt{state: attemptFailed, err: err}
	}
	if ctx.Err() != nil {
		return attempt{state: attemptFailed, err: fmt.Errorf("dedup: opening the transaction: %w: %w", contextError(ctx), err)}
	}
	return attempt{state: attemptFailed, err: fmt.Errorf("dedup: opening the transaction: %w", err)}
}

// mayRetry tells whether an error of the library's own statements, before
// anything was written, is worth a fresh attempt: a transient one, or a
// connection that broke without the server saying why.
func (d *Deduper) mayRetry(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, ErrInFlight) {
		return false
	}
	return IsTransient(err) || isConnectionLost(err)
}
