package deduptest

import (
	"context"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// committing is how long a call that was cancelled may go on before what it waits
// for is let go: one that has sent its COMMIT goes on, and rightly so.
const committing = 100 * time.Millisecond

func (sc *scene) cancelled() {
	s := sc.open(sc.v.tool, nil)
	if s == nil {
		return
	}
	for n := range sc.v.plan.units {
		sc.cancelledAt(s, n+1, "had not reached the server", faultproxy.Hold)
		sc.cancelledAt(s, n+1, "was executed", faultproxy.ReplyDelayed)
	}
}

// cancelledAt is a case in which a call's context ends while the nth statement is
// held.
func (sc *scene) cancelledAt(s *stage, n int, where string, kind faultproxy.Kind) {
	tr := sc.begin("cancelled when %s %s", sc.v.plan.name(n), where)
	defer tr.end()
	held := s.held(n, kind)
	defer held.Release()
	ctx, cancel := context.WithCancel(sc.ctx)
	defer cancel()
	replies := tr.start(ctx, s, 0)
	if !tr.reached(held, replies) {
		return
	}
	cancel()
	select {
	case r := <-replies:
		_ = tr.took(r) // before what it has sent arrives: an answer must be true by now
		held.Release()
	case <-time.After(committing):
		held.Release()
		_ = tr.took(<-replies)
	}
	tr.applied(held)
	tr.insist(s)
	tr.insist(s)
}
