package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// run is one run of the callers.
type run struct {
	*Explorer
	Play
	tree   *tree
	actors []*actor // the callers, followed by a late request
	events chan event
	over   chan struct{} // closed when no trip is held any more
	pids   map[int32]bool
	clock  atomic.Int64
	steps  []Step
	fault  Fault // the fault of this run
	// changed is true from a trip that may have changed the state until Observe.
	changed bool
	// draining is true if the order is already known: the run then ends in any order.
	draining bool
}

// actor is a caller, or a request that arrives late.
type actor struct {
	number   int
	turn     *Turn
	returned bool
	// waits is true while the actor waits for its turn to begin.
	waits bool
	// fresh is true from its turn until its first trip that shares something.
	fresh bool
	held  *trip // waits to be let go
	out   *trip // is on its way
	looks int   // one after the other
	// stale is true if another actor changed the state since this one's last trip that shared
	// something. seeing is true if that trip was a look: another look would see the same.
	stale, seeing bool
}

// event is an event of an actor: its trip arrived or was answered, it waits for its turn, or it
// returned.
type event struct {
	actor             *actor
	arrived, answered *trip
	waits             bool
}

func newRun(e *Explorer, t *tree, p Play) *run {
	r := &run{Explorer: e, Play: p, tree: t, events: make(chan event, 64), over: make(chan struct{}), pids: map[int32]bool{}}
	for i := range p.Callers {
		a := &actor{number: i, stale: true}
		a.turn = &Turn{r, a, make(chan struct{})}
		r.actors = append(r.actors, a)
	}
	return r
}

// play brings the run to its end. It returns a [Wrong], errRedundant, errDiverged or another error.
func (r *run) play(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.tree.start()
	for i, a := range r.actors {
		r.Proxies[i].Steer(func(u faultproxy.Unit) *faultproxy.Armed { return r.arrive(a, u) })
	}
	var callers sync.WaitGroup
	for i, call := range r.Callers {
		a := r.actors[i]
		callers.Go(func() {
			call(ctx, a.turn)
			select {
			case r.events <- event{actor: a}:
			case <-r.over:
			}
		})
	}
	err := r.schedule(ctx)
	for i := range r.Callers {
		r.Proxies[i].Steer(nil)
	}
	close(r.over)
	if err != nil {
		cancel()
		for _, p := range r.Proxies {
			p.CutAll()
		}
	}
	callers.Wait()
	if err != nil {
		r.Renew()
	}
	if err == nil {
		err = r.Judge(context.WithoutCancel(ctx))
	} else if !errors.Is(err, ErrStuck) {
		return err
	}
	switch {
	case r.draining:
		return errRedundant
	case err != nil:
		return &Wrong{Steps: r.steps, Err: err}
	}
	return nil
}

func (r *run) schedule(ctx context.Context) error {
	for {
		if err := r.settle(ctx); err != nil {
			return err
		}
		if err := r.observe(ctx); err != nil {
			return err
		}
		if err := r.label(); err != nil {
			return err
		}
		if t := r.plain(); t != nil {
			r.tree.passed(t.actor.number, t.share, r.shareOf)
			if err := r.let(ctx, t); err != nil {
				return err
			}
			continue
		}
		ready := r.ready()
		if len(ready) == 0 {
			if over, err := r.ended(ctx); over || err != nil {
				return err
			}
			continue
		}
		chosen, err := ready[0], error(nil)
		if !r.draining {
			chosen, err = r.tree.choose(ready, r.shareOf)
		}
		if errors.Is(err, errRedundant) {
			r.draining, chosen, err = true, ready[0], nil
		}
		if err != nil {
			return err
		}
		if a := r.actors[chosen]; a.waits {
			a.waits, a.fresh = false, true
			r.clock.Add(1)
			a.turn.begin <- struct{}{}
		} else if err := r.let(ctx, a.held); err != nil {
			return err
		}
	}
}

// shareOf returns the share of an actor's next trip, also if the actor waits for its turn.
func (r *run) shareOf(n int) share {
	if n < len(r.actors) && r.actors[n].held != nil {
		return r.actors[n].held.share
	}
	return change
}

// arrive is called by a proxy with an arrived unit. A unit before the connection's first statement
// is not a trip.
func (r *run) arrive(a *actor, u faultproxy.Unit) *faultproxy.Armed {
	if u.Index == 0 || len(u.Executes) == 0 {
		return nil
	}
	t := &trip{actor: a, unit: u, decision: make(chan *faultproxy.Armed, 1)}
	select {
	case r.events <- event{actor: a, arrived: t}:
	case <-r.over:
		return nil
	}
	select {
	case armed := <-t.decision:
		return armed
	case <-r.over:
		return nil
	}
}

// settle waits until each caller waits for its turn, has a held trip or a trip that waits inside
// the server, or has returned.
func (r *run) settle(ctx context.Context) error {
	pause := time.Millisecond // before asking the server; no decision depends on it
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for !r.quiet() {
		select {
		case e := <-r.events:
			if err := r.handle(ctx, e); err != nil {
				return err
			}
		case <-timer.C:
			if !r.thinking() {
				if err := r.waits(ctx); err != nil {
					return err
				}
			}
			pause = min(2*pause, 32*time.Millisecond)
			timer.Reset(pause)
		case <-ctx.Done():
			return fmt.Errorf("a caller neither sends nor returns, nor does a trip end: %w", ctx.Err())
		}
	}
	return nil
}

func (r *run) quiet() bool {
	return !r.thinking() && !slices.ContainsFunc(r.actors, func(a *actor) bool { return a.out != nil && !a.out.blocked })
}

// thinking reports whether a caller has its answer and has not acted since.
func (r *run) thinking() bool {
	return slices.ContainsFunc(r.actors, func(a *actor) bool { return a.out == nil && a.held == nil && !a.waits && !a.returned })
}

func (r *run) handle(ctx context.Context, e event) (err error) {
	a := e.actor
	switch {
	case e.arrived != nil:
		t := e.arrived
		a.held = t
		r.pids[t.unit.Backend] = true
		t.share, t.ends = shareOf(t.unit.Executes, r.Shares)
		if t.ends {
			var something, aborted bool
			if something, aborted, err = r.holds(ctx, t.unit.Backend); !something {
				t.share, t.idle = private, !aborted
			}
		}
	case e.answered != nil:
		a.out = nil
		a.returned = a.returned || a.number >= len(r.Callers) // a late request is all it does
		for _, other := range r.actors {                      // they may have waited for it
			if other.out != nil {
				other.out.blocked = false
			}
		}
	case e.waits:
		a.waits, a.stale = true, true
	default:
		a.returned = true
	}
	return err
}

func (r *run) observe(ctx context.Context) error {
	if !r.changed {
		return nil
	}
	r.changed = false
	return r.Observe(ctx, r.steps[len(r.steps)-1])
}

// label decides for each trip that has arrived whether it meets a fault.
func (r *run) label() error {
	for _, a := range r.actors {
		t := a.held
		if t == nil || t.labelled || len(r.Faults) == 0 || r.fault != None || r.draining {
			continue
		}
		t.labelled = true
		n, err := r.tree.label(len(r.Faults))
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		t.fault = r.Faults[n-1]
		r.fault = t.fault
		t.share = change // except for Late, the server process ends
		if t.fault == Late {
			t.share = private
		}
	}
	return nil
}

// plain returns a trip that needs no choice: a private trip, or the first trip of a caller that was
// just started.
func (r *run) plain() *trip {
	for _, a := range r.actors {
		if a.held != nil && (a.held.share == private || a.fresh) {
			return a.held
		}
	}
	return nil
}

// ready returns the actors that can be chosen.
func (r *run) ready() []int {
	var ready, later []int
	for _, a := range r.actors {
		switch {
		case a.waits:
			ready = append(ready, a.number)
		case a.held == nil:
		case a.held.share != look:
			ready = append(ready, a.number)
		case !a.stale && a.seeing:
		case a.looks >= r.Looks:
			later = append(later, a.number)
		default:
			ready = append(ready, a.number)
		}
	}
	if len(ready) == 0 {
		return later
	}
	return ready
}

// ended reports whether the run is over when no trip can be released. The server finds a deadlock
// itself.
func (r *run) ended(ctx context.Context) (bool, error) {
	over := true
	for _, a := range r.actors {
		switch {
		case a.out != nil && !a.out.deadlocked, a.held != nil, a.waits:
			return false, ErrStuck
		case a.out != nil:
			over = false
		}
	}
	if over {
		return true, nil
	}
	select {
	case e := <-r.events:
		return false, r.handle(ctx, e)
	case <-ctx.Done():
		return false, ErrStuck
	}
}

// let releases a trip.
func (r *run) let(ctx context.Context, t *trip) error {
	a := t.actor
	a.held = nil
	s := Step{Number: int(r.clock.Add(1)), Caller: a.number, Fault: t.fault, Text: text(t.unit)}
	if t.armed != nil {
		s.Caller, s.Text = t.caller, "the late request: "+s.Text
	}
	r.steps = append(r.steps, s)
	r.note(t)
	if t.armed != nil { // a late request
		a.out = t
		t.armed.Release()
		r.await(t)
		return nil
	}
	proxy := r.Proxies[a.number]
	switch t.fault {
	case Late:
		t.armed = proxy.Aim(faultproxy.Fault{Kind: faultproxy.Delayed})
		late := &actor{number: len(r.actors)}
		late.held = &trip{actor: late, unit: t.unit, share: change, labelled: true, armed: t.armed, caller: a.number}
		r.actors = append(r.actors, late)
		t.decision <- t.armed
		return nil
	case Cut:
		t.armed = proxy.Aim(faultproxy.Fault{Kind: faultproxy.Dropped})
	case Lost:
		t.armed = proxy.Aim(faultproxy.Fault{Kind: faultproxy.ReplyReset})
	default:
		t.armed = proxy.Aim(faultproxy.Fault{Kind: faultproxy.Hold})
		t.armed.Release()
	}
	if t.fault == Ended {
		if err := r.end(ctx, t.unit.Backend); err != nil {
			return err
		}
	}
	a.out = t
	t.decision <- t.armed
	r.await(t)
	return nil
}

// await reports the answer of a trip.
func (r *run) await(t *trip) {
	go func() {
		select {
		case <-t.armed.Settled():
			r.events <- event{actor: t.actor, answered: t}
		case <-r.over:
		}
	}()
}

// note updates the actors' looks after a trip.
func (r *run) note(t *trip) {
	a := t.actor
	switch t.share {
	case private:
		a.seeing = a.seeing || t.idle
		return
	case look:
		a.looks++
		a.seeing = true
	case change:
		r.changed = true
		a.looks, a.seeing = 0, false
		for _, other := range r.actors {
			other.stale = true
		}
	}
	a.fresh, a.stale = false, false
}
