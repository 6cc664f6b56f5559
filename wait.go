package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// This file has the two ways to wait for a twin without a connection. leadOrFollow waits in memory
// for a twin in this process. poll asks the table, again and again, for a twin in another process.
//
// Inside Postgres wait: a DoTx for the lock (waitForLock in internal/table/open.go), a claim for
// another claim (openClaim there), and the record's INSERT for a twin without the lock
// (recordLimit in attempt.go bounds that).

// leadOrFollow leads or follows the calls of its identity until it has an answer.
//
// A follower takes the leader's record only if the leader read or wrote it after the follower
// began. Otherwise a Reset between the two could be missed: the follower would get a deleted
// answer. If the leader used up its attempts, its followers make attempts at once: one after the
// other they would wait for the same outage.
func (c *call) leadOrFollow(ctx context.Context) error {
	for c.rec == nil {
		if ctx.Err() != nil {
			return c.orUnknown(fmt.Errorf("dedup: %w", contextError(ctx)))
		}
		leader := c.d.flights.join(c.Identity, &c.flight)
		if leader == &c.flight {
			return c.lead(ctx)
		}
		c.traceWaitStart(ctx, &c.waits.followed, true)
		if err := c.sleepUntil(ctx, leader.done, 0); err != nil {
			return c.orUnknown(err)
		}
		select {
		case <-leader.done:
		default:
			return c.orUnknown(ErrInFlight) // MaxWait is used up
		}
		switch {
		case leader.exhausted:
			return c.makeAttempts(ctx)
		case leader.rec != nil && c.span.began.Before(leader.asOf):
			c.useFound(leader.rec)
		case leader.rec != nil: // older than this call, and most likely there still
			c.lookFirst = true
		}
	}
	return nil
}

// lead runs the call and shares its record. It releases the followers after a panic too.
func (c *call) lead(ctx context.Context) error {
	defer c.d.flights.release(c.Identity, &c.flight)
	err := c.makeAttempts(ctx)
	if err == nil {
		c.flight.rec, c.flight.asOf = c.rec, c.rec.SentAt
	}
	c.flight.exhausted = c.exhausted != nil
	return err
}

// wait waits until no twin in another process is in flight, and returns the next ending.
func (c *call) wait(ctx context.Context, end ending) ending {
	if c.current.failure.at == notFailed { // it met the twin at its look-up
		c.attempts-- // a look does not count as an attempt
	}
	err := c.poll(ctx)
	switch {
	case err == nil && c.seen.Found:
		return ending{kind: found}
	case err == nil:
		return ending{kind: again}
	case end.err != nil && errors.Is(err, ErrInFlight): // Seen.Held: a sweep or a reset holds the row, not a twin
		c.attempts++
		return retry(end.err)
	case mayRetry(ctx, err):
		return ending{kind: again, pause: true, err: err, outage: isOutage(err)}
	default:
		return fail(err)
	}
}

// poll looks at the identity of a twin in another process until there is a record or the identity
// looks free. It returns ErrInFlight after MaxWait.
func (c *call) poll(ctx context.Context) error {
	if !c.spent() {
		c.traceWaitStart(ctx, &c.waits.polled, false)
	}
	for {
		if err := c.sleepUntil(ctx, nil, c.waits.nextPause()); err != nil {
			return err
		}
		if err := c.d.look(ctx, &c.Entry, &c.seen, (*table.Table).LookForTwin); err != nil || !c.seen.Busy {
			return err
		}
	}
}

// traceWaitStart reports each of the two kinds of wait once. It sets reported when it has.
func (c *call) traceWaitStart(ctx context.Context, reported *bool, inProcess bool) {
	if *reported {
		return
	}
	*reported = true
	if trace := c.d.opts.Tracer; trace != nil {
		trace.TraceEvent(ctx, WaitStartData{CallData: c.span.about(), InProcess: inProcess})
	}
}

// waits is how long a call has waited for twins.
type waits struct {
	all   time.Duration
	pause time.Duration // the last pause between two looks
	// followed and polled are true once the tracer knows of that kind of wait.
	followed, polled bool
}

// spent reports whether MaxWait is used up.
func (c *call) spent() bool { return c.maxWait > 0 && c.waits.all >= c.maxWait }

// sleepUntil waits for done, for limit (0 sets none), for MaxWait or for the context, whichever
// comes first. It returns ErrInFlight if MaxWait was used up before, and the context's error if the
// context ends.
func (c *call) sleepUntil(ctx context.Context, done <-chan struct{}, limit time.Duration) error {
	if c.spent() {
		return ErrInFlight
	}
	if c.maxWait > 0 {
		if left := c.maxWait - c.waits.all; limit == 0 || left < limit {
			limit = left
		}
	}
	start := time.Now() // before the timer, whose time is at most what is counted
	defer func() { c.waits.all += time.Since(start) }()
	var timeout <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-done:
		return nil
	case <-timeout:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dedup: waiting for a twin: %w", contextError(ctx))
	}
}

// The pauses between two looks add a tenth to a fifth of the effect's own time (measured), with at
// most some 30 looks a second.
const (
	firstPause  = 2 * time.Millisecond
	longPause   = 50 * time.Millisecond
	pauseGrowth = 1.25
)

// nextPause returns the pause before the next look.
func (w *waits) nextPause() time.Duration {
	w.pause = min(max(time.Duration(float64(w.pause)*pauseGrowth), firstPause), longPause)
	return jitter(w.pause)
}
