package dedup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// flights coalesce the twins of one process: of all calls with one identity one
// leads and talks to the database, and the others wait for it in memory, with
// no connection. A follower of a leader that ends without a record takes over.
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
	// settled tells that rec is the identity's record. Both are written by the
	// leader before done is closed and read by followers after.
	settled bool
	rec     record
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

// landed returns the record to share, if the leader has ended with one. A
// follower may ask at any time.
func (f *flight) landed() (rec record, ok bool) {
	select {
	case <-f.done:
		return f.rec, f.settled
	default:
		return record{}, false
	}
}

// settle makes rec what followers share.
func (f *flight) settle(rec record) { f.rec, f.settled = rec, true }

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
		if rec, ok := f.landed(); ok {
			_, _ = c.found(rec)
			return c.given(), nil
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
	if err == nil {
		f.settle(s.rec)
	}
	return s, err
}
