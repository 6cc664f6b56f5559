package dedup

import (
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
