package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// The way of a call, top down:
//
//	do, lead  one leader per identity and process (here)
//	run       the loop: as many attempts as Options.Retry allows, pauses (here)
//	step      one attempt, and what comes of it (here)
//	attempt   one transaction: {BEGIN; lock; look-up} and effects in tx.go,
//	          {INSERT; COMMIT} in tx_record.go; all in one pipeline in combined.go
//	explain   what a failed transaction means: reads the winning row (constraint.go)
//	next      what comes after: an answer, another attempt, a wait (here)

// do leads or follows the identity's flight. A call that may not wait does not
// follow: it is answered at once where its leader is in the effect, and else
// finds out for itself.
//
// What is shared is no older than the call that gets it: the record was read, or
// committed, by a statement that was sent after the call had begun. Somebody else may
// free the identity while the server's answer is on its way to the leader, and a call
// that begins then must not get what was deleted before.
func (s *solo) do(ctx context.Context) error {
	g, c := s.alone(), &s.call
	if c.known != nil {
		g.find(c, *c.known)
		return nil
	}
	for {
		if err := ctx.Err(); err != nil {
			return g.ended(fmt.Errorf("dedup: %w", contextError(ctx)))
		}
		f, leads := s.d.flights.Join(c.Identity, &s.flight)
		if leads {
			return s.lead(ctx)
		}
		if c.waiter.spent() {
			if f.Busy() {
				return g.ended(ErrInFlight)
			}
			return g.runOne(ctx)
		}
		c.traceWaitStart(ctx, &c.waiter.followed, true)
		if err := c.waiter.wait(ctx, f.Done(), 0); err != nil {
			return g.ended(err)
		}
		if !f.Landed() {
			continue
		}
		answer, ok := f.Answer(c.began)
		switch {
		case ok && answer.exhausted != nil:
			return g.exhaust(answer.exhausted)
		case ok:
			g.find(c, *answer.rec)
			return nil
		case f.Stale(c.began) && answer.exhausted == nil: // most likely the record is there still
			c.lookFirst = true
		}
	}
}

// lead runs the call and lands its flight however it ends, panics included.
func (s *solo) lead(ctx context.Context) error {
	defer s.d.flights.Land(s.call.Identity, &s.flight)
	s.leads = &s.flight
	err := s.runOne(ctx)
	switch {
	case err == nil:
		s.flight.Share(shared{rec: &s.call.rec}, s.call.rec.SentAt)
	case s.doubt.err == nil && s.exhausted != nil:
		s.flight.Share(shared{exhausted: s.exhausted}, s.exhausted.tried)
	}
	return err
}

// runOne is run for a group of one call.
func (g *group) runOne(ctx context.Context) error {
	_, err := g.run(ctx)
	if err == nil {
		err = g.calls[0].err
	}
	return err
}

// maxConflicts bounds the attempts after a unique violation without a record. A
// lost race has a record, or a winner that was swept within the moment; a
// trigger or a foreign unique index has neither, and unbounded it ran an effect
// 4,104 times in 2 s (measured).
const maxConflicts = 2

// step is what comes after an attempt.
type step int

const (
	stepSettled step = iota // every call has come to an end
	stepFailed              // there is an error to return, or a record that answers with one
	stepAgain               // another attempt at once; what causes it bounds how often
	stepFault               // another attempt after a pause, within Options.Retry
)

// run makes attempts until one settles the calls, within Options.Retry. What it returns
// with bad is the error of that call, or nil where bad has a record that answers with
// one.
func (g *group) run(ctx context.Context) (bad *call, err error) {
	if slices.ContainsFunc(g.calls, func(c *call) bool { return c.lookFirst }) {
		g.lookUp(ctx, g.calls)
	}
	defer func() {
		for _, c := range g.calls {
			if c.endedTx { // a panic passes by; its connection has been given back
				_ = g.d.recordBroken(ctx, c, errTxEnded, nil) // the panic is what is raised
			}
		}
	}()
	for faults := 0; ; {
		next, bad, err := g.step(ctx)
		switch next {
		case stepSettled:
			return nil, nil
		case stepFailed:
			return g.blame(ctx, bad, err)
		case stepAgain:
			continue
		}
		if faults++; faults >= g.d.opts.Retry.MaxAttempts {
			return g.blame(ctx, bad, g.exhaust(&exhaustion{attempts: g.attempts, err: err, tried: g.tried, outage: g.outage}))
		}
		if err := g.pause(ctx, bad, faults, err); err != nil {
			return g.blame(ctx, bad, err)
		}
	}
}

// step makes one attempt and says what comes next.
func (g *group) step(ctx context.Context) (step, *call, error) {
	if bad := g.together.misjudged(time.Time{}); bad != nil {
		return stepFailed, bad, nil
	}
	rest := unsettled(g.calls)
	if len(rest) == 0 {
		return stepSettled, nil, nil
	}
	g.count(rest, 1)
	g.tried = time.Now()
	v := g.attempt(ctx, rest)
	if v.state == undecided {
		v = g.explain(ctx, v)
	}
	g.doubt.resolvedBy(v.free, v.started)
	g.outage = v.outage
	return g.next(ctx, rest, v)
}

// attempt makes one transaction of calls: three round trips when the identities are free,
// two when there is a record or a twin, and one where effects and records are combined.
func (g *group) attempt(ctx context.Context, calls []*call) verdict {
	pooled, err := g.d.acquire(ctx)
	if err != nil {
		return g.unstarted(ctx, calls, err)
	}
	defer g.d.release(ctx, pooled) // rolls back, after a panic too
	conn := pooled.Conn()
	if err := g.d.checkTable(ctx, conn); err != nil {
		return g.unopened(ctx, conn, calls, err)
	}
	if g.combines(conn, calls) {
		return g.attemptCombined(ctx, conn, calls)
	}
	if g.part {
		return verdict{state: again}
	}
	return g.attemptOn(ctx, conn, calls)
}

// next says what comes after the verdict on an attempt of these calls. docs/design.md has
// it as a table.
func (g *group) next(ctx context.Context, rest []*call, v verdict) (step, *call, error) {
	switch v.state {
	case committed:
		for _, c := range v.calls {
			g.settle(ctx, c)
		}
		return stepSettled, nil, nil
	case found:
		if v.bad != nil {
			g.find(v.bad, v.rec)
		}
		return stepAgain, nil, nil
	case busy:
		g.count(rest, -1) // it came to nothing but a look
		next, bad, err := g.wait(ctx, v.bad)
		if v.err != nil && errors.Is(err, ErrInFlight) { // somebody else has the row: there is no twin
			g.count(rest, 1)
			return stepFault, bad, v.err
		}
		return next, bad, err
	case held:
		if v.bad.waiter.spent() {
			return stepFailed, v.bad, ErrInFlight
		}
		return g.wait(ctx, v.bad)
	case again:
		return stepAgain, nil, nil
	case undone:
		return g.afterUndone(ctx, v)
	case refused:
		return g.refuse(v.bad, v.err)
	case broken:
		if v.bad.out != table.Broken { // else not even that can be recorded
			v.err = g.d.recordBroken(ctx, v.bad, v.err, nil)
		}
		return stepFailed, v.bad, v.err
	case conflicted:
		c := v.bad
		if c.conflicts++; c.conflicts > maxConflicts || c.conflicts >= g.d.opts.Retry.MaxAttempts {
			return stepFailed, c, conflictError(c, v.err)
		}
	case unknown:
		g.doubt.add(v.err, g.tried, v.until)
	case failed:
		return stepFailed, v.bad, v.err
	case retry: // transient
	}
	return stepFault, v.bad, v.err
}

func (g *group) count(calls []*call, n int) {
	g.attempts += n
	for _, c := range calls {
		c.attempts += n
	}
}

// settle settles a call whose effect is committed.
func (g *group) settle(ctx context.Context, c *call) {
	if c.written.CreatedAt.IsZero() {
		g.d.reexamine() // and let the next call say what is wrong
		c.err = table.ErrSwallowed
		if c.out != table.Broken {
			c.err = g.d.recordBroken(ctx, c, c.err, nil)
		}
		return
	}
	c.rec, c.executed = c.written, true
}

// recordBroken blocks an identity whose effect ended its own transaction, so
// that a retry cannot repeat whatever of it is committed. It goes on after the
// caller's context has ended.
//
// With LockFirst the identity was free from the moment that the effect ended the
// transaction, and a twin may have run since; then the error says so.
func (d *Deduper) recordBroken(ctx context.Context, of *call, cause error, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opts.CommitTimeout)
	defer cancel()
	err := of.answer(Error{Answer: ErrBroken, Err: cleaned(cause)})
	s := &solo{call: call{d: d, function: of.function, Entry: of.Entry, began: of.began, out: table.Broken, effect: noEffect, waiter: waiter{max: of.waiter.max}}}
	g := s.alone()
	if conn != nil { // free, and perhaps the only one
		v := g.attemptOn(ctx, conn, g.calls)
		wire.Rollback(ctx, conn)
		if v.state == committed && !s.call.written.CreatedAt.IsZero() || v.state == found && v.rec.IsBroken() {
			err.Err = alongside(err.Err, d.auditBroken(ctx, conn, &of.Identity, cause))
			return err
		}
	}
	failed := g.runOne(ctx)
	switch {
	case failed != nil:
		err.Err = fmt.Errorf("%w (and it could not be recorded: %w)", err.Err, failed)
	case !s.call.executed && !s.call.rec.IsBroken():
		err.Err = fmt.Errorf("%w (and a twin has run and recorded the call since)", err.Err)
	default:
		err.Err = alongside(err.Err, d.auditBroken(ctx, nil, &of.Identity, cause))
	}
	return err
}

// auditBroken writes down that a record is broken, so that it can be found without an index
// on the records: claims and records would pay for that one. The record counts without it.
func (d *Deduper) auditBroken(ctx context.Context, conn *pgx.Conn, id *table.Identity, cause error) error {
	if conn == nil {
		pooled, err := d.acquire(ctx)
		if err != nil {
			return fmt.Errorf("dedup: writing the audit: %w", err)
		}
		defer d.release(ctx, pooled)
		conn = pooled.Conn()
	}
	if err := d.table().AuditBroken(ctx, conn, id, cleaned(cause).Error()); err != nil {
		return fmt.Errorf("dedup: writing the audit: %w", cleaned(err))
	}
	return nil
}

// refuse makes recording a refusal the work of the attempts to come. Of calls that are
// answered together nothing is recorded.
func (g *group) refuse(c *call, cause error) (step, *call, error) {
	if g.together != nil {
		return stepFailed, c, cause
	}
	text, err := encodeRefusal(cause, g.d.opts.MaxResultBytes)
	if err != nil {
		return stepFailed, c, fmt.Errorf("%w (the refusal: %w)", err, cause)
	}
	c.out, c.cause, c.stmt = table.Refused, cause, nil
	c.effect = func(context.Context, pgx.Tx) (string, error) { return text, nil }
	return stepAgain, nil, nil
}

// blame says whose the error is that ended the attempts. Of a lost COMMIT it says first
// that its outcome is still open.
func (g *group) blame(ctx context.Context, bad *call, err error) (*call, error) {
	switch {
	case err == nil: // a record is the answer
		return bad, nil
	case g.doubt.err != nil:
		return nil, g.ended(err)
	case ctx.Err() != nil:
		return nil, err
	default:
		return bad, err
	}
}

// ended is the error of a call whose attempts err has ended: after a lost COMMIT its
// outcome is still open.
func (g *group) ended(err error) error {
	if own, ok := errors.AsType[*Error](err); g.doubt.err == nil || ok && own.Answer == ErrOutcomeUnknown {
		return err
	}
	return g.doubt.unknown(g.attempts, err)
}

// exhaust ends a call whose attempts, or those of a call that it shares them with, are
// used up.
func (g *group) exhaust(x *exhaustion) error {
	g.exhausted = x
	if g.doubt.err != nil {
		return g.ended(x.err)
	}
	return &Error{Answer: ErrAttemptsExhausted, Attempts: x.attempts, Err: x.err}
}

// pause waits before the next attempt: full jitter, within the context.
func (g *group) pause(ctx context.Context, bad *call, faults int, err error) error {
	if bad == nil {
		bad = g.calls[0]
	}
	delay := fullJitter(g.d.opts.Retry.longestPause(faults))
	bad.traceRetried(ctx, faults, delay, err, g.doubt.err != nil)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dedup: before another attempt: %w: %w", contextError(ctx), err)
	}
}

// longestPause is the one before the attempt that follows the nth.
func (p RetryPolicy) longestPause(attempt int) time.Duration {
	d := p.BaseDelay
	for range attempt - 1 {
		if d *= 2; d >= p.MaxDelay {
			return p.MaxDelay
		}
	}
	return d
}

// wait waits until no twin of c is in flight. A call that may not wait looks again, so
// that it is not sent away because of a neighbour who only looked.
func (g *group) wait(ctx context.Context, c *call) (step, *call, error) {
	look := (*table.Table).Peek
	if g.together != nil {
		// A claim can only be seen by claiming, and here that is cheaper than to run
		// all the effects and roll them back.
		look = (*table.Table).Probe
	}
	var seen table.Lookup
	var err error
	if c.waiter.max < 0 && g.looks < g.maxLooks() {
		g.looks++
		if seen, err = g.d.look(ctx, c, look); err == nil && seen.Busy {
			err = ErrInFlight
		}
		g.metForgotten = seen.Forgotten
	} else {
		seen, err = g.d.await(ctx, c, look)
	}
	switch {
	case err == nil && seen.Found:
		g.find(c, seen.Record)
		return stepAgain, nil, nil
	case err == nil:
		return stepAgain, nil, nil
	case mayRetry(ctx, err):
		g.outage = isOutage(err)
		return stepFault, c, err
	default:
		return stepFailed, c, err
	}
}

// maxLooks bounds how often a call that may not wait looks again after it has met
// somebody. With LockFirst a look shows whether that was a twin or a neighbour who
// only looked. With ClaimFirst it does not, and the next attempt has to: that is a
// twin, but where a record that may be forgotten is in the way, which a sweep may
// hold for a moment.
func (g *group) maxLooks() int {
	if g.d.table().PeekSeesTwins() || g.metForgotten {
		return 50
	}
	return 1
}
