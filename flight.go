package dedup

import (
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// flights maps an identity to its leader. The first call of an identity leads and runs; later calls
// of this process follow and wait for its answer.
type flights struct {
	mu sync.Mutex
	m  map[table.Identity]*flight
}

// flight is the shared state of a leader. The leader writes rec, asOf and exhausted before it
// closes done, and followers read them afterwards.
type flight struct {
	// done is closed when the leader ends. It is nil until the first follower needs it.
	done chan struct{}
	// rec is the leader's record, nil if it has none, and asOf when the leader sent the statement
	// that read or committed it.
	rec  *table.Record
	asOf time.Time
	// exhausted is true if the leader used up its attempts.
	exhausted bool
}

// join returns the identity's leader, or makes f the leader if there is none. A caller that leads
// must call release.
func (all *flights) join(id table.Identity, f *flight) (leader *flight) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if leader = all.m[id]; leader != nil {
		if leader.done == nil {
			leader.done = make(chan struct{})
		}
		return leader
	}
	if all.m == nil {
		all.m = make(map[table.Identity]*flight)
	}
	all.m[id] = f
	return f
}

// release removes the leader and wakes its followers. If the leader found no answer, a follower
// leads next.
func (all *flights) release(id table.Identity, f *flight) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.m, id)
	if f.done != nil {
		close(f.done)
	}
}
