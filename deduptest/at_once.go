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

// together is a case of n calls that begin at the same moment. Half of them use a second Deduper,
// like another process: it shares no memory with the first.
func (sc *scene) together(n int) {
	here, there := sc.open(sc.v.tool, nil), sc.open(sc.v.tool, nil)
	if here == nil || there == nil {
		return
	}
	tr := sc.begin("%d begin together", n)
	defer tr.end()
	sentHere, sentThere := sends(here.proxy), sends(there.proxy)
	begin := make(chan struct{}) // closed when all calls wait, so that none ends before another begins
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
	tr.checkReplies(twins...)
	if one, other := sentHere(), sentThere(); one && other {
		sc.out.Faults++
	} else {
		tr.problemf("nothing was tested: the calls of one of the two Dedupers sent nothing")
	}
	tr.callUntilAnswered(here)
}

// sends watches a proxy. sent stops that and reports whether anything was executed.
func sends(p *faultproxy.Proxy) (sent func() bool) {
	seen := watchUnits(p)
	return func() bool { return len(seen()) > 0 }
}

// overlap is how long a twin may take while the first call is held.
const overlap = 2 * time.Second

// inFlight is a case in which a second call comes when the first has done everything but commit.
// Its Deduper does not wait, so the tool's code for dedup.ErrInFlight runs.
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
	tr.checkReplies(first, twin)
	tr.applied(held)
	tr.callUntilAnswered(there)
}

// replied returns a channel with a reply that was received.
func replied(r reply) <-chan reply {
	again := make(chan reply, 1)
	again <- r
	return again
}

// checkReplies judges the replies of twins. Their only error may be one that dedup.IsRetryable
// knows.
func (tr *trial) checkReplies(all ...<-chan reply) {
	for _, replies := range all {
		switch err := tr.checkReply(<-replies); {
		case errors.Is(err, context.DeadlineExceeded):
			tr.problemf("twins get no answer within %s: does the effect need a second connection of a pool that its twins have emptied?", tr.v.patience)
		case err != nil && !dedup.IsRetryable(err):
			tr.problemf("a twin gets an error that dedup.IsRetryable does not know: %v", err)
		}
	}
}
