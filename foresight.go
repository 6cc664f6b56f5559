package dedup

import (
	"sync/atomic"
	"time"
)

// foresight guesses from what a Deduper's statements have met whether the next one
// is a replay.
type foresight struct {
	// locks are those of identities that have a record, or may have one. Each new
	// one takes the place of another.
	locks [4096]atomic.Int64
	// firsts counts first calls in a row, up to calm.
	firsts atomic.Int32
	// slow is how long a statement takes that nobody wants to run in vain.
	slow time.Duration
}

const (
	// calm is how many first calls in a row make it likely that another one comes.
	// Replays come in herds: after a deploy, an outage, or a job that is run again.
	calm = 100
	// slowStatement is a thousand times what a look costs.
	slowStatement = 20 * time.Millisecond
)

// met tells whether the identity with this lock has a record, most likely.
func (f *foresight) met(lock int64) bool { return f.place(lock).Load() == lock }

// looks tells whether to look for a record in front of a statement that took so
// long the last time, or 0 where nobody knows. A call with a limit on its waiting
// always looks: a replay that runs in vain waits for all that its statement waits for.
func (f *foresight) looks(took time.Duration, req *request) bool {
	return f.firsts.Load() < calm || took == 0 || took >= f.slow || req.maxWait != 0
}

// meet remembers an identity that has a record, or may have one. A first call is
// one that had none before.
func (f *foresight) meet(lock int64, first bool) {
	f.place(lock).Store(lock)
	switch {
	case !first:
		f.firsts.Store(0)
	case f.firsts.Load() < calm:
		f.firsts.Add(1)
	}
}

// place needs no hash: a lock is one.
func (f *foresight) place(lock int64) *atomic.Int64 {
	return &f.locks[uint64(lock)%uint64(len(f.locks))]
}
