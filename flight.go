package dedup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// flights coalesce the twins of one process: of all calls with one identity one
// leads and talks to the database, and the others wait for it in memory, with
// no connection. A follower of a leader that ends without an answer takes over.
//
// What is shared is no older than the call that gets it: the record was read, or
// committed, by a statement that was sent after the call had begun. Somebody else may
// free the identity while the server's answer is on its way to the leader, and a call
// that begins then must not get what was deleted before.
type flights struct {
	mu sync.Mutex
	m  map[identity]*flight
}

// flight is one leader's try.
type flight struct {
	// done is closed when the leader has ended. The first follower makes it.
	done chan struct{}
	// running tells that the leader is inside the effect.
	running atomic.Bool
	// The leader writes what follows before done is closed, and followers read it
	// after. settled tells that rec is the identity's record; exhausted is not nil
	// where the leader has used up its attempts and certainly committed nothing.
	settled   bool
	rec       record
	exhausted *exhaustion
}

// join returns the identity's flight and whether the caller leads it: then it is
// own. A leader must land it.
func (fs *flights) join(id identity, own *flight) (f *flight, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.m[id]; ok {
		if f.done == nil {
			f.done = make(chan struct{})
		}
		return f, false
	}
	if fs.m == nil {
		fs.m = make(map[identity]*flight)
	}
	fs.m[id] = own
	return own, true
}

// land ends a flight. Followers that share rec still judge it by their own
// fingerprint.
func (fs *flights) land(id identity, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.m, id)
	if f.done != nil {
		close(f.done)
	}
}

// landed tells whether the leader has ended. A follower may ask at any time.
func (f *flight) landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// do leads or follows the identity's flight. A call that may not wait does not
// follow: it is answered at once where its leader is in the effect, and else
// finds out for itself.
func (c *doCall) do(ctx context.Context) (settled, error) {
	for {
		if err := ctx.Err(); err != nil {
			return c.given(), c.ended(fmt.Errorf("dedup: %w", contextError(ctx)))
		}
		f, leads := c.d.flights.join(c.req.identity, &c.leads)
		if leads {
			return c.lead(ctx, f)
		}
		if c.patience.spent() {
			if f.running.Load() {
				return c.given(), c.ended(ErrInFlight)
			}
			return c.run(ctx)
		}
		if !c.patience.toldFollowing {
			c.patience.toldFollowing = true
			c.d.traceWaitStart(ctx, c.req, true)
		}
		if err := c.patience.wait(ctx, f.done, 0); err != nil {
			return c.given(), c.ended(err)
		}
		if !f.landed() {
			continue
		}
		switch {
		case f.settled && c.began.Before(f.rec.sentAt):
			_, _ = c.found(f.rec)
			return c.given(), nil
		case f.settled:
			c.late = true
		case f.exhausted != nil && c.began.Before(f.exhausted.tried):
			return c.given(), c.exhaust(f.exhausted)
		}
	}
}

// given is how the call came out without a try of its own.
func (c *doCall) given() settled {
	c.s.waited = c.patience.waited
	return c.s
}

// lead runs the call and lands its flight however it ends, panics included.
func (c *doCall) lead(ctx context.Context, f *flight) (settled, error) {
	defer c.d.flights.land(c.req.identity, f)
	c.flight = f
	s, err := c.run(ctx)
	switch {
	case err == nil:
		f.rec, f.settled = s.rec, true
	case c.unknown == nil:
		f.exhausted = c.exhausted
	}
	return s, err
}
