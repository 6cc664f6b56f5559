// Package flight lets the calls of one process that ask the same share one answer: of all
// callers with one key one leads and finds the answer, and the others wait for it in
// memory. It knows nothing of what is asked.
package flight

import (
	"sync"
	"sync/atomic"
	"time"
)

// Group keeps the flights that are under way. Its zero value is ready.
type Group[K comparable, A any] struct {
	mu sync.Mutex
	m  map[K]*Flight[A]
}

// Flight is one leader's try to find an answer. Its zero value is ready.
type Flight[A any] struct {
	// done is closed when the leader has ended. The first follower makes it.
	done chan struct{}
	// busy is true when the leader is at what nobody else may do meanwhile.
	busy atomic.Bool
	// answer and asOf are written by the leader before done is closed, and read by
	// followers after. A zero asOf is no answer.
	answer A
	asOf   time.Time
}

// Join returns the key's flight and whether the caller leads it: then it is own. A leader
// must land it.
func (g *Group[K, A]) Join(key K, own *Flight[A]) (f *Flight[A], leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f, ok := g.m[key]; ok {
		if f.done == nil {
			f.done = make(chan struct{})
		}
		return f, false
	}
	if g.m == nil {
		g.m = make(map[K]*Flight[A])
	}
	g.m[key] = own
	return own, true
}

// Land ends a flight, and wakes whoever waits for it. A follower of a flight without an
// answer may lead the next one.
func (g *Group[K, A]) Land(key K, f *Flight[A]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.m, key)
	if f.done != nil {
		close(f.done)
	}
}

// Share is called by the leader, before it lands: answer is what was true at asOf.
func (f *Flight[A]) Share(answer A, asOf time.Time) { f.answer, f.asOf = answer, asOf }

// Done is closed when the flight has landed. Only followers call it.
func (f *Flight[A]) Done() <-chan struct{} { return f.done }

// Landed reports whether the flight has landed. Only followers call it, as what follows.
func (f *Flight[A]) Landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// Answer returns the answer of a flight that has landed, and whether it is one for a caller
// that began at since. An older one was true before that caller asked, and may not be any
// more.
func (f *Flight[A]) Answer(since time.Time) (answer A, ok bool) {
	return f.answer, since.Before(f.asOf)
}

// Stale reports whether a flight that has landed had an answer, but none for a caller that
// began at since.
func (f *Flight[A]) Stale(since time.Time) bool { return !f.asOf.IsZero() && !since.Before(f.asOf) }

// SetBusy notes whether the leader is at what nobody else may do meanwhile.
func (f *Flight[A]) SetBusy(busy bool) { f.busy.Store(busy) }

// Busy reports whether the leader is.
func (f *Flight[A]) Busy() bool { return f.busy.Load() }
