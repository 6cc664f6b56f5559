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
	// done is closed when the leader has ended.
	done chan struct{}
	// running tells that the leader is inside the effect.
	running atomic.Bool
	// settled tells that rec is the identity's record. Both are written by the
	// leader before done is closed and read by followers after.
	settled bool
	rec     record
}

// join returns the identity's flight and whether the caller leads it. A leader
// must land it.
func (fs *flights) join(id identity) (f *flight, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.m[id]; ok {
		return f, false
	}
	if fs.m == nil {
		fs.m = make(map[identity]*flight)
	}
	f = &flight{done: make(chan struct{})}
	fs.m[id] = f
	return f, true
}

// land ends a flight. Followers that share rec still judge it by their own
// fingerprint.
func (fs *flights) land(id identity, f *flight) {
	fs.mu.Lock()
	delete(fs.m, id)
	fs.mu.Unlock()
	close(f.done)
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
			return d.newCall(req, work, nil, &patience).run(ctx)
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
	s, err := d.newCall(req, work, f, p).run(ctx)
	if err == nil {
		f.settle(s.rec)
	}
	return s, err
}

func (d *Deduper) newCall(req *request, work work, f *flight, p *patience) *doCall {
	return &doCall{d: d, req: req, out: outcomeDone, work: work, flight: f, patience: p}
}
