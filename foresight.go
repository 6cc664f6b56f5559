package dedup

import "sync/atomic"

// foresight guesses from what a Deduper's statements have met whether the next one
// is a replay. What it guesses costs or saves time, and decides nothing.
type foresight struct {
	// locks are those of identities that have a record, or may have one. Each new
	// one takes the place of another.
	locks [4096]atomic.Int64
	// firsts counts first calls in a row, up to calm.
	firsts atomic.Int32
}

// calm is how many first calls in a row make it likely that another one comes.
// Replays come in herds: after a deploy, an outage, or a job that is run again.
const calm = 100

// met tells whether the identity with this lock has a record, most likely.
func (f *foresight) met(lock int64) bool { return f.place(lock).Load() == lock }

// wary tells whether it is worth to look for a record in front of a statement.
func (f *foresight) wary() bool { return f.firsts.Load() < calm }

// meet remembers an identity that has a record, or may have one. A first call is
// one that had none before.
func (f *foresight) meet(lock int64, first bool) {
	f.place(lock).Store(lock)
	switch {
	case !first:
		f.firsts.Store(0)
	case f.wary():
		f.firsts.Add(1)
	}
}

// place needs no hash: a lock is one.
func (f *foresight) place(lock int64) *atomic.Int64 {
	return &f.locks[uint64(lock)%uint64(len(f.locks))]
}
