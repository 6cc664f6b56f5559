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
//	run      attempts, pauses between them, waiting for twins
//	attempt  one transaction: {BEGIN; lock; look-up}, effect, {INSERT; COMMIT}
//	resolve  what a failure means (constraint.go)

// work is what an attempt does between look-up and record: it returns the text
// to record, or an error.
type work func(ctx context.Context, tx pgx.Tx) (text string, err error)

// noWork is for records without a result.
func noWork(context.Context, pgx.Tx) (string, error) { return "", nil }

// settled is how a call came out when it came to a record.
type settled struct {
	rec record
	// executed tells that this call wrote rec; else it was found.
	executed bool
	// recovered tells that rec was found after a COMMIT of this call whose
	// answer was lost.
	recovered bool
	// cause is the effect's error behind a refusal that this call recorded.
	cause    error
	waited   time.Duration
	attempts int
	took     time.Duration
}

// refusal is the error of a call that recorded one.
func (s *settled) refusal() error {
	if s.rec.outcome != outcomeRefused {
		return nil
	}
	err := decodeRefusal(s.rec.result, s.rec.createdAt)
	var refused *RefusedError
	if errors.As(err, &refused) {
		refused.Replayed, refused.err = false, s.cause
	}
	return err
}

// do leads or follows the identity's flight. A call that may not wait does not
// follow: it is answered at once where its leader is in the effect, and else
// finds out for itself.
func (d *Deduper) do(ctx context.Context, req *request, work work) (settled, error) {
	patience := patience{max: req.maxWait}
	for {
		if err := ctx.Err(); err != nil {
			return settled{waited: patience.waited}, fmt.Errorf("dedup: %w", contextError(ctx))
		}
		f, leads := d.flights.join(req.identity)
		if leads {
			return d.lead(ctx, req, work, f, &patience)
		}
		if patience.spent() {
			if f.running.Load() {
				return settled{waited: patience.waited}, ErrInFlight
			}
			return d.run(ctx, req, outcomeDone, work, nil, &patience)
		}
		if !patience.toldFollowing {
			patience.toldFollowing = true
			d.traceWaitStart(ctx, req, true)
		}
		if err := patience.wait(ctx, f.done, 0); err != nil {
			return settled{waited: patience.waited}, err
		}
		if rec, ok := f.landed(); ok {
			return settled{rec: rec, waited: patience.waited}, nil
		}
	}
}

// lead runs the call and lands its flight however it ends, panics included.
func (d *Deduper) lead(ctx context.Context, req *request, work work, f *flight, p *patience) (settled, error) {
	defer d.flights.land(req.identity, f)
	s, err := d.run(ctx, req, outcomeDone, work, f, p)
	if err == nil {
		f.settle(s.rec)
	}
	return s, err
}

// attemptState says what one attempt came to.
type attemptState int

const (
	attemptExecuted  attemptState = iota // committed; rec was written
	attemptFound                         // rec was there
	attemptBusy                          // a twin is in flight
	attemptRetry                         // transient; certainly not committed
	attemptConflict                      // unique violation without a record; not committed
	attemptUnknown                       // the answer to COMMIT was lost
	attemptRefusal                       // rolled back; err is to be recorded
	attemptBroken                        // the effect ended its transaction
	attemptFailed                        // err is the call's own; not committed
	attemptUndecided                     // rolled back; failure is to be resolved
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
}

// maxConflicts bounds the attempts after a unique violation without a record. A
// lost race has a record, or a winner that was swept within the moment; a
// trigger or a foreign unique index has neither, and unbounded it ran an effect
// 4,104 times in 2 s (measured).
const maxConflicts = 2

// run makes attempts until one settles the call, within Options.Retry.
func (d *Deduper) run(ctx context.Context, req *request, out outcome, work work, f *flight, p *patience) (settled, error) {
	var s settled
	var unknown, cause error
	conflicts, askedTwice := 0, false
	start := time.Now()

	// finish tells the caller of a lost COMMIT that its outcome is still open,
	// whatever ended the attempts.
	finish := func(err error) (settled, error) {
		s.waited = p.waited
		if unknown == nil {
			return s, err
		}
		if err == unknown {
			err = nil
		}
		return s, &OutcomeUnknownError{Attempts: s.attempts, Err: unknown, Cause: err}
	}

	// A panic passes through here after its connection was given back.
	gone := false
	defer func() {
		if gone {
			_ = d.recordBroken(ctx, req, errTxGone, nil) // the panic is what is told
		}
	}()

	for faults := 0; ; {
		s.attempts++
		a := d.attempt(ctx, req, out, work, f, &gone)
		if a.state == attemptUndecided {
			a = d.resolve(ctx, req, a)
		}
		if a.alone {
			unknown = nil
		}
		switch a.state {
		case attemptExecuted:
			s.rec, s.executed, s.cause = a.rec, true, cause
			s.waited, s.took = p.waited, time.Since(start)
			return s, nil
		case attemptFound:
			s.rec, s.recovered, s.waited = a.rec, unknown != nil, p.waited
			return s, nil
		case attemptFailed:
			return finish(a.err)

		case attemptBusy:
			s.attempts-- // it came to nothing but a look
			var seen sighting
			var err error
			if p.max < 0 && !askedTwice {
				// Who may not wait is not sent away because of a neighbour who
				// only looked.
				askedTwice = true
				if seen, err = d.look(ctx, req, d.order.peek); seen.busy {
					err = ErrInFlight
				}
			} else {
				seen, err = d.await(ctx, req, p)
			}
			switch {
			case seen.found && err == nil:
				s.rec, s.recovered, s.waited = seen.rec, unknown != nil, p.waited
				return s, nil
			case err == nil:
				continue
			case !d.mayRetry(ctx, err):
				return finish(err)
			}
			a.err = err

		case attemptRefusal:
			text, err := encodeRefusal(a.err, d.opts.MaxResultBytes)
			if err != nil {
				return finish(fmt.Errorf("%w (the refusal: %w)", err, a.err))
			}
			out, cause = outcomeRefused, a.err
			work = func(context.Context, pgx.Tx) (string, error) { return text, nil }
			continue

		case attemptBroken:
			if out == outcomeBroken { // not even that can be recorded
				return finish(a.err)
			}
			return finish(d.recordBroken(ctx, req, a.err, nil))

		case attemptConflict:
			d.traceConflict(ctx, req, a.err, false)
			if conflicts++; conflicts > maxConflicts {
				return finish(conflictError(req, a.err))
			}
		case attemptUnknown:
			unknown = a.err
		}

		if faults++; faults >= d.opts.Retry.MaxAttempts {
			if unknown != nil {
				return finish(a.err)
			}
			return finish(&AttemptsError{Attempts: s.attempts, Err: a.err})
		}
		if err := d.pause(ctx, req, faults, a.err, unknown != nil); err != nil {
			return finish(err)
		}
	}
}

// attempt makes one transaction of its own: three round trips when the identity
// is free, two when there is a record or a twin.
func (d *Deduper) attempt(ctx context.Context, req *request, out outcome, work work, f *flight, gone *bool) attempt {
	pooled, err := d.acquire(ctx)
	if err != nil {
		return d.unstarted(ctx, err)
	}
	defer d.release(ctx, pooled) // rolls back, after a panic too
	return d.attemptOn(ctx, pooled.Conn(), req, out, work, f, gone)
}

// attemptOn is attempt on a connection that is in no transaction. It may leave
// one open.
func (d *Deduper) attemptOn(ctx context.Context, conn *pgx.Conn, req *request, out outcome, work work, f *flight, gone *bool) attempt {
	if err := d.trustArbiter(ctx, conn); err != nil {
		return d.unstarted(ctx, err)
	}

	open, err := d.order.open(ctx, conn, req)
	switch {
	case sqlState(err) == codeUniqueViolation: // of a claim
		return attempt{state: attemptConflict, err: err}
	case err != nil:
		dropReadOnly(ctx, conn, err)
		return d.unstarted(ctx, hintPooler(err))
	case open.found:
		return attempt{state: attemptFound, rec: open.rec}
	case open.busy:
		return attempt{state: attemptBusy}
	case open.hidden:
		return attempt{state: attemptConflict}
	}

	text, err := d.perform(ctx, req, &open, work, f, gone)
	if err != nil {
		lost := conn.IsClosed()
		dropReadOnly(ctx, conn, err)
		return attempt{state: attemptUndecided, alone: d.conclusive(), failure: failure{err: err, lost: lost}}
	}
	if ctx.Err() != nil { // nothing was sent yet: a definite end
		return attempt{state: attemptFailed, err: fmt.Errorf("dedup: before commit: %w", contextError(ctx)), alone: d.conclusive()}
	}

	rec, what, atRecord, err := d.commit(ctx, conn, req, &open, out, text)
	switch {
	case what == commitDone && err == errSwallowed:
		d.trusted.Store(false) // and let the next call say what is wrong
		return attempt{state: attemptBroken, err: err}
	case what == commitDone:
		return attempt{state: attemptExecuted, rec: rec}
	case what == commitUnknown:
		return attempt{state: attemptUnknown, err: err}
	default:
		lost := conn.IsClosed()
		dropReadOnly(ctx, conn, err)
		return attempt{state: attemptUndecided, alone: d.conclusive(), failure: failure{err: err, atRecord: atRecord, lost: lost}}
	}
}

// conclusive tells whether finding an identity free proves that earlier attempts
// have ended without a record. It does where the look-up is younger than the
// lock; at stricter levels both share one snapshot, which is older.
func (d *Deduper) conclusive() bool {
	return d.opts.Isolation == pgx.ReadCommitted || d.opts.Order == ClaimFirst
}

// dropReadOnly closes a connection to a server that turned out to be read-only:
// it was demoted, and the pool must connect to the new primary.
func dropReadOnly(ctx context.Context, conn *pgx.Conn, err error) {
	if sqlState(err) == codeReadOnly {
		_ = conn.Close(ctx)
	}
}

// perform runs work on a guarded transaction and checks in what state it left
// it.
//
// After a panic of the work nobody reads its error any more, so gone tells
// whether it had ended its transaction.
func (d *Deduper) perform(ctx context.Context, req *request, open *opening, work work, f *flight, gone *bool) (string, error) {
	guard := newEffectTx(open.tx)
	defer guard.closed.Store(true)
	returned := false
	defer func() {
		if !returned {
			*gone = guard.verdict(ctx, open.started, errPanicked) == errTxGone
		}
	}()
	inner, scope := d.enterEffect(ctx, req.identity)
	defer scope.ended.Store(true)
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
	err = cleaned(err)
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

// pause waits before the next attempt: full jitter, within the context.
func (d *Deduper) pause(ctx context.Context, req *request, faults int, err error, unknown bool) error {
	delay := fullJitter(d.opts.Retry.bound(faults))
	d.traceRetried(ctx, req, faults, delay, err, unknown)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dedup: before another attempt: %w: %w", contextError(ctx), err)
	}
}
