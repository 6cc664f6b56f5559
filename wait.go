package dedup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// waiter is how long one call may still wait for its twins, all in all.
type waiter struct {
	max    time.Duration // 0: until the context ends; negative: not at all
	waited time.Duration
	pause  time.Duration // the last pause between looks
	// followed and looked are true when the tracer knows of the two kinds of waits.
	followed, looked bool
}

// spent reports whether no more waiting is allowed.
func (w *waiter) spent() bool { return w.max < 0 || w.max > 0 && w.waited >= w.max }

// inPostgres is how long a call may wait inside Postgres for somebody; 0 is as long as
// the session allows.
func (w *waiter) inPostgres() time.Duration {
	if w.max < 0 {
		return table.RowTimeout
	}
	return w.max
}

// wait waits for done, for at most limit where that is not 0, and for no longer
// than the call may. It returns ErrInFlight when that has run out and
// the context's error when it ended.
func (w *waiter) wait(ctx context.Context, done <-chan struct{}, limit time.Duration) error {
	if w.spent() {
		return ErrInFlight
	}
	if w.max > 0 {
		if left := w.max - w.waited; limit == 0 || left < limit {
			limit = left
		}
	}
	var timeout <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	start := time.Now()
	defer func() { w.waited += time.Since(start) }()
	select {
	case <-done:
		return nil
	case <-timeout:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dedup: waiting for a twin: %w", contextError(ctx))
	}
}

// contextError joins a context's cause to its error, so that both are found.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Pauses between looks at a twin in another process: measured as adding a tenth
// to a fifth of the effect's own time, with at most some 30 looks a second.
const (
	firstPause  = 2 * time.Millisecond
	longPause   = 50 * time.Millisecond
	pauseGrowth = 1.25
)

// jitter draws evenly from the upper half of d, so that waiting twins do not
// look in step.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// fullJitter draws evenly from zero to d, so that callers that failed together
// do not come back together.
func fullJitter(d time.Duration) time.Duration { return rand.N(d + 1) }

// nextPause is the pause before the next look.
func (w *waiter) nextPause() time.Duration {
	w.pause = min(max(time.Duration(float64(w.pause)*pauseGrowth), firstPause), longPause)
	return jitter(w.pause)
}

// maxLooks bounds how often a call that may not wait looks again after it has met
// somebody. With LockFirst a look shows whether that was a twin or a neighbour who
// only looked. With ClaimFirst it does not, and the next attempt has to: that is a
// twin, but where a record that may be forgotten is in the way, which a sweep may
// hold for a moment.
func (g *group) maxLooks() int {
	if g.d.table.PeekSeesTwins() || g.metForgotten {
		return 50
	}
	return 1
}

// wait waits until no twin of c is in flight. A call that may not wait looks again, so
// that it is not sent away because of a neighbour who only looked.
func (g *group) wait(ctx context.Context, c *call) (step, *call, error) {
	look := g.d.table.Peek
	if g.together != nil {
		// A claim can only be seen by claiming, and here that is cheaper than to run
		// all the effects and roll them back.
		look = g.d.table.Probe
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

// await looks at an identity that a twin in another process holds, again and
// again and without holding a connection in between, until there is a record or
// the identity looks free. It returns ErrInFlight when the call may wait no longer.
func (d *Deduper) await(ctx context.Context, c *call, look lookFunc) (table.Lookup, error) {
	if !c.waiter.spent() {
		c.traceWaitStart(ctx, &c.waiter.looked, false)
	}
	for {
		if err := c.waiter.wait(ctx, nil, c.waiter.nextPause()); err != nil {
			return table.Lookup{}, err
		}
		seen, err := d.look(ctx, c, look)
		if err != nil || !seen.Busy {
			return seen, err
		}
	}
}
