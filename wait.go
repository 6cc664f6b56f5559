package dedup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// A call waits for its twins here: in do for those of this process, in memory, and in poll for
// those of other processes. Three statements wait inside Postgres: DoTx's for the lock or the claim
// (table.OpenIn), and the record's own, for as long as recordLimit allows.

// flights are the calls of this process that are on their way: of those with one identity one
// leads, and the others wait for its end in memory.
type flights struct {
	mu sync.Mutex
	m  map[table.Identity]*flight
}

// flight is what the followers of a leader see of it.
type flight struct {
	// landed is closed when the leader has ended. The first follower makes it.
	landed chan struct{}
}

// join returns the leader. Where there is none that is f, and the caller must land it.
func (all *flights) join(id table.Identity, f *flight) (leader *flight) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if leader = all.m[id]; leader != nil {
		if leader.landed == nil {
			leader.landed = make(chan struct{})
		}
		return leader
	}
	if all.m == nil {
		all.m = make(map[table.Identity]*flight)
	}
	all.m[id] = f
	return f
}

// land ends the flight that leads, and wakes whoever waits for it. A follower of a leader
// without an answer may lead the next time.
func (all *flights) land(id table.Identity, f *flight) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.m, id)
	if f.landed != nil {
		close(f.landed)
	}
}

// do leads or follows the calls of its identity. A follower looks when its leader has ended, and
// where there is no record it leads or follows again. One whose look fails makes attempts of its
// own, which say what is wrong: so nobody waits for an outage more than twice.
func (c *call) do(ctx context.Context) error {
	for c.rec == nil {
		if ctx.Err() != nil {
			return c.ended(fmt.Errorf("dedup: %w", contextError(ctx)))
		}
		leader := c.d.flights.join(c.Identity, &c.flight)
		if leader == &c.flight {
			defer c.d.flights.land(c.Identity, &c.flight) // after a panic too
			return c.run(ctx)
		}
		c.traceWaitStart(ctx, &c.waits.followed, true)
		if err := c.sit(ctx, leader.landed, 0); err != nil {
			return c.ended(err)
		}
		select {
		case <-leader.landed:
		default:
			return c.ended(ErrInFlight) // it has waited as long as it may
		}
		if c.d.look(ctx, &c.Entry, &c.seen, (*table.Table).LookUp) != nil {
			return c.run(ctx)
		}
		c.lookedUp()
	}
	return nil
}

// wait waits until no twin is in flight.
func (c *call) wait(ctx context.Context, v verdict) verdict {
	if c.last.failedAt == atOpen {
		c.attempts-- // only a look, which is not counted as an attempt
	}
	err := c.poll(ctx)
	switch {
	case err == nil && c.seen.Found:
		return verdict{kind: found}
	case err == nil:
		return verdict{kind: again}
	case v.err != nil && errors.Is(err, ErrInFlight): // a sweep or a reset holds the row, not a twin
		c.attempts++
		return retry(v.err)
	case mayRetry(ctx, err):
		return verdict{kind: again, pause: true, err: err, outage: isOutage(err)}
	default:
		return fail(err)
	}
}

// poll looks at an identity that a twin in another process holds, again and again and
// without holding a connection in between, until there is a record or the identity looks
// free. It returns ErrInFlight when the call may wait no longer.
func (c *call) poll(ctx context.Context) error {
	if !c.spent() {
		c.traceWaitStart(ctx, &c.waits.polled, false)
	}
	for {
		if err := c.sit(ctx, nil, c.waits.nextPause()); err != nil {
			return err
		}
		if err := c.d.look(ctx, &c.Entry, &c.seen, (*table.Table).Peek); err != nil || !c.seen.Busy {
			return err
		}
	}
}

// traceWaitStart reports each kind of wait once. known is set once it has.
func (c *call) traceWaitStart(ctx context.Context, known *bool, inProcess bool) {
	if *known {
		return
	}
	*known = true
	if trace := c.d.opts.Tracer; trace != nil {
		trace.TraceEvent(ctx, WaitStartData{CallData: c.span.about(), InProcess: inProcess})
	}
}

// waits is how a call has waited for its twins.
type waits struct {
	all   time.Duration
	pause time.Duration // the last one between looks
	// followed and polled are true when the tracer knows of the two kinds of waits.
	followed, polled bool
}

// spent reports whether no more waiting is allowed.
func (c *call) spent() bool { return c.maxWait > 0 && c.waits.all >= c.maxWait }

// sit waits for done, for at most limit where that is not 0, and for no longer than the call
// may. It returns ErrInFlight when that has run out and the context's error when it ended.
func (c *call) sit(ctx context.Context, done <-chan struct{}, limit time.Duration) error {
	if c.spent() {
		return ErrInFlight
	}
	if c.maxWait > 0 {
		if left := c.maxWait - c.waits.all; limit == 0 || left < limit {
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
	defer func() { c.waits.all += time.Since(start) }()
	select {
	case <-done:
		return nil
	case <-timeout:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dedup: waiting for a twin: %w", contextError(ctx))
	}
}

// Pauses between looks at a twin in another process: measured as adding a tenth to a fifth
// of the effect's own time, with at most some 30 looks a second.
const (
	firstPause  = 2 * time.Millisecond
	longPause   = 50 * time.Millisecond
	pauseGrowth = 1.25
)

// nextPause is the pause before the next look.
func (w *waits) nextPause() time.Duration {
	w.pause = min(max(time.Duration(float64(w.pause)*pauseGrowth), firstPause), longPause)
	return jitter(w.pause)
}
