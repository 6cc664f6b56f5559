package deduptest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// atOnce makes n calls at the same time. Half of them come by a second Deduper,
// as from another process, which no memory of the first can help.
func (sc *scene) atOnce(n int) {
	here, there := sc.open(sc.v.tool, nil), sc.open(sc.v.tool, nil)
	if here == nil || there == nil {
		return
	}
	sc.behindOne(n, here, there)
	sc.together(n, here, there)
	if n == 2 {
		sc.inFlight(here)
	}
}

// inFlight is a case in which the other call comes by a Deduper that does not wait, so that code of
// the tool that handles dedup.ErrInFlight is run.
func (sc *scene) inFlight(here *stage) {
	there := sc.open(sc.v.tool.with(func(o *dedup.Options) { o.MaxWait = -1 }), nil)
	if there == nil {
		return
	}
	tr := sc.begin("another comes, by a Deduper that does not wait, when the first has done all but commit")
	defer tr.end()
	held := here.held(sc.v.plan.deciding, faultproxy.Hold)
	defer held.Release()
	first := tr.start(sc.ctx, here, 0)
	if !tr.reached(held, first) {
		return
	}
	twin := tr.start(sc.ctx, there, 0)
	select {
	case r := <-twin:
		twin = replied(r)
	case <-time.After(overlap): // a tool may wait by itself
	}
	held.Release()
	tr.tookAll([]<-chan reply{first, twin})
	tr.applied(held)
	tr.insist(there)
}

// behindOne is a case in which one call is held where it would commit, so that all
// the others come when its effect is there and cannot be seen.
func (sc *scene) behindOne(n int, here, there *stage) {
	tr := sc.begin("%d more come when the first has done all but commit", n-1)
	defer tr.end()
	seen := watchTwins(there.proxy, sc.v.plan.deciding)
	defer seen.stop()
	held := here.held(sc.v.plan.deciding, faultproxy.Hold)
	defer held.Release()
	first := tr.start(sc.ctx, here, 0)
	if !tr.reached(held, first) {
		return
	}
	twins := tr.startMany(n-1, there, here)
	// Where none sends anything, the tool itself keeps them waiting: their answers tell.
	if tr.met(seen.one) {
		tr.getFar(there, seen, twins)
	}
	held.Release()
	tr.tookAll(append(twins, first))
	tr.applied(held)
	tr.insist(there)
}

// together is a case in which all calls begin at the same moment.
func (sc *scene) together(n int, here, there *stage) {
	tr := sc.begin("%d begin together", n)
	defer tr.end()
	seenHere, seenThere := watchTwins(here.proxy, 1), watchTwins(there.proxy, 1)
	defer seenHere.stop()
	defer seenThere.stop()
	tr.tookAll(tr.startMany(n, here, there))
	if tr.met(seenHere.one) && tr.met(seenThere.one) {
		sc.out.Faults++
	} else {
		tr.problemf("nothing was tested: the calls of one of the two Dedupers sent nothing")
	}
	tr.insist(here)
}

const (
	overlap     = 2 * time.Second
	overlapLook = 2 * time.Millisecond
)

// getFar lets twins get as far as they do while the first call is held: until one
// has sent as much as a whole call, or is answered, or waits for a lock. What
// waits in another way is given a while.
func (tr *trial) getFar(s *stage, seen *twins, replies []<-chan reply) {
	ctx, cancel := context.WithTimeout(tr.ctx, overlap)
	defer cancel()
	for !within(overlapLook, seen.whole) && ctx.Err() == nil {
		if slices.ContainsFunc(replies, func(r <-chan reply) bool { return len(r) > 0 }) {
			return
		}
		var waits bool
		err := tr.v.direct.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM pg_stat_activity
			               WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock')`,
			s.name).Scan(&waits)
		if err != nil || waits {
			return
		}
	}
}

// replied gives a reply again that was taken.
func replied(r reply) <-chan reply {
	again := make(chan reply, 1)
	again <- r
	return again
}

// startMany makes n calls, by turns on the stages.
func (tr *trial) startMany(n int, stages ...*stage) []<-chan reply {
	replies := make([]<-chan reply, n)
	for i := range replies {
		replies[i] = tr.start(tr.ctx, stages[i%len(stages)], 0)
	}
	return replies
}

// tookAll takes the replies of twins. They may be told to try again, and nothing
// else.
func (tr *trial) tookAll(all []<-chan reply) {
	for _, replies := range all {
		switch err := tr.took(<-replies); {
		case errors.Is(err, context.DeadlineExceeded):
			tr.problemf("twins get no answer within %s: does the effect need a second connection of a pool that its twins have emptied?", tr.v.patience)
		case err != nil && !dedup.IsRetryable(err):
			tr.problemf("a twin gets an error that dedup.IsRetryable does not know: %v", err)
		}
	}
}

// met waits for a signal that is bound to come.
func (tr *trial) met(signal <-chan struct{}) bool {
	return within(min(tr.v.patience, 5*time.Second), signal)
}

// twins are calls that a proxy sees coming.
type twins struct {
	one   chan struct{} // closed when a first statement has come
	whole chan struct{} // closed when a connection has sent as many as a whole call
	stop  func()
}

// watchTwins looks for calls of n statements.
func watchTwins(p *faultproxy.Proxy, n int) *twins {
	t := &twins{one: make(chan struct{}), whole: make(chan struct{})}
	var mu sync.Mutex
	total, sent := 0, map[int]int{}
	t.stop = watch(p, func(u faultproxy.Unit) {
		mu.Lock()
		defer mu.Unlock()
		if total++; total == 1 {
			close(t.one)
		}
		if sent[u.Conn]++; sent[u.Conn] == n {
			select {
			case <-t.whole:
			default:
				close(t.whole)
			}
		}
	})
	return t
}
