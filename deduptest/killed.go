package deduptest

import (
	"errors"
	"fmt"
)

func (sc *scene) processKilled() {
	s := sc.open(nil)
	if s == nil {
		return
	}
	for n := range sc.v.plan.units {
		if !sc.killedAt(s, n+1, "had not reached the server", HoldRequest) {
			return // no process can be started, and the next one could not either
		}
	}
	sc.killedAt(s, sc.v.plan.deciding, "was executed", HoldAnswer)
}

// killedAt is a case in which the process that calls is killed while the nth
// statement is held, and another one calls again. It is false when no process can
// be started.
func (sc *scene) killedAt(s *stage, n int, where string, kind Kind) bool {
	what := fmt.Sprintf("killed when %s %s", sc.v.plan.name(n), where)
	key := sc.v.newKey()
	victim, err := sc.v.startChild(sc.ctx, s.proxy, key)
	if err != nil {
		sc.failf("%s: nothing was tested: %v", what, err)
		return false
	}
	defer victim.end()
	tr := sc.begin("%s", what)
	defer tr.end()
	tr.key = key

	held := s.proxy.Inject(Fault{Kind: kind, At: AtStatement, Skip: n - 1})
	defer held.Release()
	if !tr.reached(held, victim.call(tr)) {
		return true
	}
	if err := victim.kill(); err != nil {
		tr.problemf("nothing was tested: %v", err)
	}
	held.Release()
	tr.applied(held)

	heir, err := sc.v.startChild(sc.ctx, s.proxy, key)
	if err != nil {
		tr.problemf("starting the process again: %v", err)
		return true
	}
	defer heir.end()
	tr.before++ // its own first call
	var told *childError
	if err := tr.took(<-heir.call(tr)); err != nil && !(errors.As(err, &told) && told.retryable) {
		tr.problemf("the call of the process that was started again fails: %v", err)
	}
	tr.insist(s)
	return true
}
