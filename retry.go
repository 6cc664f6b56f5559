package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// doCall is one Do on its way through attempts. It belongs to one goroutine.
type doCall struct {
	d   *Deduper
	req *request
	own request // where req points to, mostly
	// began is when the call was made.
	began time.Time
	// out is what the work's text is to be recorded as.
	out  outcome
	work work
	// sql is the statement that work runs, where it is one; sentWhole tells that
	// it was sent together with its record, and adrift that it may yet arrive:
	// then that an identity is free is no proof that it has not run.
	sql               *boundStatement
	sentWhole, adrift bool
	// flight is what this call leads, nil where it leads none; else it is leads.
	flight   *flight
	leads    flight
	patience patience
	s        settled

	// unknown is the fault that hid the outcome of an earlier COMMIT, nil when
	// there was none or when it is known by now. sent is when the first such
	// COMMIT was sent.
	unknown   error
	sent      time.Time
	conflicts int
	// renewed counts the connections that were given up, one after the other, because
	// their prepared statements were gone. When it comes to all of the pool's, a pooler
	// loses them.
	renewed int32
	// reprepared tells that DoTogether has asked once more with the statement
	// prepared anew.
	reprepared bool
	// looks counts how often a call that may not wait has looked again; forgotten
	// tells that the last look saw a record that may be forgotten.
	looks     int
	forgotten bool
	// gone tells that the effect ended its transaction and then panicked.
	gone bool
}

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
	return firstRefusal(s.rec.result, s.rec.createdAt, s.cause)
}

// maxConflicts bounds the attempts after a unique violation without a record. A
// lost race has a record, or a winner that was swept within the moment; a
// trigger or a foreign unique index has neither, and unbounded it ran an effect
// 4,104 times in 2 s (measured).
const maxConflicts = 2

// step is what comes after an attempt.
type step int

const (
	stepSettled step = iota // there is a record
	stepFailed              // there is an error to return
	stepAgain               // another attempt at once
	stepFault               // another attempt after a pause, within Options.Retry
)

// run makes attempts until one settles the call, within Options.Retry.
func (c *doCall) run(ctx context.Context) (settled, error) {
	if c.looksFirst() {
		seen, err := c.d.look(ctx, c.req, c.d.lookOnly)
		if err == nil && seen.found { // else an attempt finds out
			_, _ = c.found(seen.rec)
			return c.given(), nil
		}
	}
	defer func() {
		if c.gone { // a panic passes by; its connection has been given back
			_ = c.d.recordBroken(ctx, c.req, errTxGone, nil) // the panic is what is told
		}
	}()
	start := time.Now()
	for faults := 0; ; {
		next, err := c.step(ctx)
		c.s.waited = c.patience.waited
		switch next {
		case stepSettled:
			c.s.took = time.Since(start)
			return c.s, nil
		case stepFailed:
			return c.s, c.ended(err)
		case stepAgain:
			continue
		}
		if faults++; faults >= c.d.opts.Retry.MaxAttempts {
			if c.unknown == nil {
				err = &AttemptsError{Attempts: c.s.attempts, Err: err}
			}
			return c.s, c.ended(err)
		}
		if err := c.pause(ctx, faults, err); err != nil {
			return c.s, c.ended(err)
		}
	}
}

// looksFirst tells whether a replay is likely. Do looks in the trip that begins
// its transaction, so that only statements gain by a guess.
func (c *doCall) looksFirst() bool {
	return c.req.lookFirst || c.sql != nil && c.d.foresight.met(c.req.lock)
}

// ended tells the caller of a lost COMMIT that its outcome is still open,
// whatever ended the attempts.
func (c *doCall) ended(err error) error {
	if c.unknown == nil {
		return err
	}
	return outcomeUnknown(c.s.attempts, c.unknown, err)
}

func outcomeUnknown(attempts int, unknown, cause error) error {
	if cause == unknown {
		cause = nil
	}
	return &OutcomeUnknownError{Attempts: attempts, Err: unknown, Cause: cause}
}

// step makes one attempt and says what comes next.
func (c *doCall) step(ctx context.Context) (step, error) {
	c.s.attempts++
	a := c.attempt(ctx)
	if a.state == attemptUndecided {
		a = c.d.resolve(ctx, c.req, a)
	}
	if a.alone && !c.adrift {
		c.unknown = nil
	}
	switch a.state {
	case attemptExecuted:
		c.s.rec, c.s.executed = a.rec, true
		return stepSettled, nil
	case attemptFound:
		return c.found(a.rec)
	case attemptBusy:
		c.s.attempts-- // it came to nothing but a look
		next, err := c.wait(ctx, c.d.order.peek)
		if err == ErrInFlight && a.err != nil { // there is no twin to be told of
			c.s.attempts++
			return stepFault, a.err
		}
		return next, err
	case attemptHeld:
		if c.patience.spent() {
			return stepFailed, ErrInFlight
		}
		return c.wait(ctx, c.d.order.peek)
	case attemptAgain:
		return c.afterWhole(ctx, a.err)
	case attemptRefusal:
		return c.refuse(a.err)
	case attemptBroken:
		if c.out != outcomeBroken { // else not even that can be recorded
			a.err = c.d.recordBroken(ctx, c.req, a.err, nil)
		}
		return stepFailed, a.err
	case attemptConflict:
		c.d.traceConflict(ctx, c.req, a.err, false)
		if c.conflicts++; c.conflicts > maxConflicts || c.conflicts >= c.d.opts.Retry.MaxAttempts {
			return stepFailed, conflictError(c.req, a.err)
		}
	case attemptUnknown:
		c.lose(a.err, a.sent)
	case attemptFailed:
		return stepFailed, a.err
	}
	return stepFault, a.err
}

// lose notes that the answer to a COMMIT was lost, which was not sent before sent.
func (c *doCall) lose(err error, sent time.Time) {
	if c.unknown == nil {
		c.sent = sent
	}
	c.unknown = err
}

// provable tells whether finding no record still proves that an earlier COMMIT of
// this call came to nothing. A record of it may be forgotten by now, and swept or
// not: to run again could then repeat the effect. Half of the time that the record
// is remembered is left for clocks that differ, this machine's from the server's
// and those of two servers in a failover.
func (c *doCall) provable() bool {
	return c.unknown == nil || time.Since(c.sent) < c.req.retention.forget()/2
}

// errForgotten is why a call with a lost COMMIT makes no further attempt.
var errForgotten = errors.New("dedup: too late to find out: the record is remembered for a shorter time than that took; see Retention")

// found settles the call with a record that was there.
func (c *doCall) found(rec record) (step, error) {
	c.s.rec, c.s.recovered = rec, c.unknown != nil && c.during(&rec)
	return stepSettled, nil
}

// during tells whether rec was written since the call was made. Two spans of time
// are compared, one by the database's clock and one by this machine's, and they may
// go a little apart.
func (c *doCall) during(rec *record) bool {
	return rec.age() <= time.Since(c.began)+10*time.Millisecond
}

// maxLooks bounds how often a call that may not wait looks again after it has met
// somebody. With LockFirst a look shows whether that was a twin or a neighbour who
// only looked. With ClaimFirst it does not, and the next attempt has to: that is a
// twin, but where a record that may be forgotten is in the way, which a sweep may
// hold for a moment.
func (c *doCall) maxLooks() int {
	if c.d.opts.Order == LockFirst || c.forgotten {
		return 50
	}
	return 1
}

// wait waits for a twin. A call that may not wait looks again, lest it be sent away
// because of a neighbour who only looked.
func (c *doCall) wait(ctx context.Context, look lookFunc) (step, error) {
	var seen sighting
	var err error
	if c.patience.max < 0 && c.looks < c.maxLooks() {
		c.looks++
		if seen, err = c.d.look(ctx, c.req, look); err == nil && seen.busy {
			err = ErrInFlight
		}
		c.forgotten = seen.rec.outcome != "" && !seen.found
	} else {
		seen, err = c.d.await(ctx, c.req, &c.patience, look)
	}
	switch {
	case err == nil && seen.found:
		return c.found(seen.rec)
	case err == nil:
		return stepAgain, nil
	case c.d.mayRetry(ctx, err):
		return stepFault, err
	default:
		return stepFailed, err
	}
}

// refuse makes recording a refusal the work of the attempts to come.
func (c *doCall) refuse(cause error) (step, error) {
	text, err := encodeRefusal(cause, c.d.opts.MaxResultBytes)
	if err != nil {
		return stepFailed, fmt.Errorf("%w (the refusal: %w)", err, cause)
	}
	c.out, c.s.cause = outcomeRefused, cause
	c.work = func(context.Context, pgx.Tx) (string, error) { return text, nil }
	return stepAgain, nil
}

// pause waits before the next attempt: full jitter, within the context.
func (c *doCall) pause(ctx context.Context, faults int, err error) error {
	delay := fullJitter(c.d.opts.Retry.bound(faults))
	c.d.traceRetried(ctx, c.req, faults, delay, err, c.unknown != nil)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dedup: before another attempt: %w: %w", contextError(ctx), err)
	}
}

// bound is the longest pause before the attempt that follows the nth.
func (p RetryPolicy) bound(attempt int) time.Duration {
	d := p.BaseDelay
	for range attempt - 1 {
		if d *= 2; d >= p.MaxDelay {
			return p.MaxDelay
		}
	}
	return d
}
