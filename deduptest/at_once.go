package deduptest

import (
	"context"
	"errors"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

func (sc *scene) twoAtOnce() {
	sc.together(2)
	sc.inFlight()
}

// together is a case in which n calls begin at the same moment. Half of them come by a second Deduper,
// as from another process, which no memory of the first can help.
func (sc *scene) together(n int) {
	here, there := sc.open(sc.v.tool, nil), sc.open(sc.v.tool, nil)
	if here == nil || there == nil {
		return
	}
	tr := sc.begin("%d begin together", n)
	defer tr.end()
	sentHere, sentThere := sends(here.proxy), sends(there.proxy)
	begin := make(chan struct{}) // closed when all are there, so that none has ended before another begins
	tool := sc.v.tool
	tool.Call = func(ctx context.Context, try Try) (any, error) {
		<-begin
		return sc.v.tool.Call(ctx, try)
	}
	twins := make([]<-chan reply, n)
	for i := range twins {
		tr.out.Calls++
		twins[i] = tool.start(tr.ctx, tr.v.patience, []*stage{here, there}[i%2], tr.key, 0)
	}
	close(begin)
	tr.tookAll(twins...)
	if one, other := sentHere(), sentThere(); one && other {
		sc.out.Faults++
	} else {
		tr.problemf("nothing was tested: the calls of one of the two Dedupers sent nothing")
	}
	tr.insist(here)
}

// sends watches a proxy until it is asked whether something was executed.
func sends(p *faultproxy.Proxy) (sent func() bool) {
	seen := watchUnits(p)
	return func() bool { return len(seen()) > 0 }
}

// overlap is how long a twin may wait by itself for a call that is held.
const overlap = 2 * time.Second

// inFlight is a case in which another call comes when the effect of the first is there and cannot be seen. It comes
// by a Deduper that does not wait, so that code of the tool that handles dedup.ErrInFlight is run.
func (sc *scene) inFlight() {
	here := sc.open(sc.v.tool, nil)
	there := sc.open(sc.v.tool.with(func(o *dedup.Options) { o.MaxWait = -1 }), nil)
	if here == nil || there == nil {
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
	case <-time.After(overlap):
	}
	held.Release()
	tr.tookAll(first, twin)
	tr.applied(held)
	tr.insist(there)
}

// replied gives a reply again that was taken.
func replied(r reply) <-chan reply {
	again := make(chan reply, 1)
	again <- r
	return again
}

// tookAll takes the replies of twins. They may be told to try again, and nothing
// else.
func (tr *trial) tookAll(all ...<-chan reply) {
	for _, replies := range all {
		switch err := tr.took(<-replies); {
		case errors.Is(err, context.DeadlineExceeded):
			tr.problemf("twins get no answer within %s: does the effect need a second connection of a pool that its twins have emptied?", tr.v.patience)
		case err != nil && !dedup.IsRetryable(err):
			tr.problemf("a twin gets an error that dedup.IsRetryable does not know: %v", err)
		}
	}
}
