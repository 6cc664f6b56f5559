package faultproxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Armed is a fault that waits for its unit, or has hit it.
type Armed struct {
	fault   Fault
	ledger  *ledger
	list    *armory
	applied signal
	settled signal
	release signal

	// aimed is true for one that a Pilot returns.
	aimed bool

	// Guarded by list.mu.
	skip, left, count int
	disarmed          bool
}

// Arm makes the fault ready. Units whose first byte has already passed the proxy are out of its
// reach. When several armed faults pick a unit, the one armed first has it.
func (p *Proxy) Arm(f Fault) *Armed {
	a := p.prepare(f)
	p.armory.mu.Lock()
	defer p.armory.mu.Unlock()
	p.armory.ready = append(p.armory.ready, a)
	return a
}

func (p *Proxy) prepare(f Fault) *Armed {
	switch f.Kind {
	case ReplyReset, ReplyClosed, ReplyCut, ReplyDelayed, Blackhole, Dropped, CutBeforeSync, Delayed, Hold, CutAfterBytes:
	default:
		panic(fmt.Sprintf("faultproxy: unknown kind of fault %q", f.Kind))
	}
	a := &Armed{
		fault: f, ledger: &p.ledger, list: &p.armory,
		applied: newSignal(), settled: newSignal(), release: newSignal(),
		skip: f.Skip, left: f.Times,
	}
	if f.Times == 0 {
		a.left = 1
	}
	return a
}

// Applied is closed when the fault has happened for the first time: for the kinds that hold, when
// the unit or the answer is held; for Blackhole, when the answer was dropped; for all others, when
// the client has been cut off.
func (a *Armed) Applied() <-chan struct{} { return a.applied.c }

// Wait waits for Applied.
func (a *Armed) Wait(ctx context.Context) error {
	return wait(ctx, a.Applied(), a.fault.Kind, "applied")
}

// WaitSettled waits until the effect of the first hit unit on the database is final. For Hold,
// ReplyDelayed and Blackhole that is the server's answer. For the kinds that cut, it is the end of
// the connection's server process.
func (a *Armed) WaitSettled(ctx context.Context) error {
	return wait(ctx, a.settled.c, a.fault.Kind, "settled")
}

// Release releases everything that the fault holds, now and later.
func (a *Armed) Release() { a.release.fire() }

// Disarm keeps the fault from hitting another unit. A held unit stays held.
func (a *Armed) Disarm() {
	a.list.mu.Lock()
	defer a.list.mu.Unlock()
	a.disarmed = true
	a.list.remove(a)
}

// Count returns how often the fault has happened.
func (a *Armed) Count() int {
	a.list.mu.Lock()
	defer a.list.mu.Unlock()
	return a.count
}

func wait(ctx context.Context, c <-chan struct{}, kind Kind, what string) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the fault %s to be %s: %w", kind, what, context.Cause(ctx))
	}
}

// armory holds the faults that may still hit a unit.
type armory struct {
	mu      sync.Mutex
	ready   []*Armed
	pilot   Pilot // decides instead; nil without one
	rewrite func(sql string) string
}

// take reserves the fault that hits the unit, or returns nil.
func (l *armory) take(u Unit) *shot {
	l.mu.Lock()
	ready, pilot := slices.Clone(l.ready), l.pilot
	l.mu.Unlock()
	if pilot != nil {
		if a := pilot(u); a != nil {
			return &shot{armed: a}
		}
		return nil
	}
	for _, a := range ready {
		if a.fault.picks(u) && a.reserve() { // picks is the caller's code: not under the lock
			return &shot{armed: a}
		}
	}
	return nil
}

func (l *armory) remove(a *Armed) {
	l.ready = slices.DeleteFunc(l.ready, func(b *Armed) bool { return a == b })
}

func (a *Armed) reserve() bool {
	a.list.mu.Lock()
	defer a.list.mu.Unlock()
	switch {
	case a.left == 0 || a.disarmed:
		return false
	case a.skip > 0:
		a.skip--
		return false
	}
	if a.left--; a.left == 0 {
		a.list.remove(a)
	}
	return true
}

// shot is the one use of a fault on one unit. Only one goroutine of a session has it at a time.
type shot struct {
	armed *Armed
	done  bool
}

// apply counts the fault, applies it and then signals. So a fault is counted before its effect is
// seen, and done before its signal.
func (s *shot) apply(happen func()) {
	s.done = true
	s.armed.ledger.count(func(c *Snapshot) { c.Faults[s.armed.fault.Kind]++ })
	s.armed.list.mu.Lock()
	s.armed.count++
	s.armed.list.mu.Unlock()
	happen()
	s.armed.applied.fire()
}

// end settles a shot that was applied, and returns an unused one to its fault.
func (s *shot) end() {
	a := s.armed
	if s.done || a.aimed {
		a.settled.fire()
		return
	}
	a.list.mu.Lock()
	defer a.list.mu.Unlock()
	if a.left++; a.left == 1 && !a.disarmed {
		a.list.ready = append(a.list.ready, a)
	}
}

// signal is a channel that several may close.
type signal struct {
	c    chan struct{}
	once *sync.Once
}

func newSignal() signal { return signal{c: make(chan struct{}), once: new(sync.Once)} }

func (s signal) fire() { s.once.Do(func() { close(s.c) }) }
