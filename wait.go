package dedup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// maxWait is longer than any wait, and so short that a little can be added to it.
const maxWait = 100 * 365 * 24 * time.Hour

// waiter is how long one call may still wait for its twins, all in all.
type waiter struct {
	max    time.Duration // at most maxWait; 0: until the context ends; negative: not at all
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

// withContext adds the end of ctx to err where err does not hold it already.
func withContext(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(err, ctx.Err()) && errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("dedup: %w: %w", contextError(ctx), err)
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
