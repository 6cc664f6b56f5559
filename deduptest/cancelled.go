package deduptest

import (
	"context"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// committing is how long a cancelled call may go on before the held statement is released. A call
// that has sent its COMMIT rightly waits for the reply.
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

// cancelledAt is a case in which a call's context ends while the nth statement is held.
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
		_ = tr.checkReply(r) // before the held statement arrives: an answer must be true already
		held.Release()
	case <-time.After(committing):
		held.Release()
		_ = tr.checkReply(<-replies)
	}
	tr.applied(held)
	tr.callUntilAnswered(s)
	tr.callUntilAnswered(s)
}
