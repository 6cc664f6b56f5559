package deduptest

import (
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// The shortest request and the shortest answer of a statement have 11 bytes, so a cut after this
// many is in the middle.
const middle = 7

// strike is a fault that meets the nth statement of a call.
type strike struct {
	n     int
	what  string // the event, for reports
	fault faultproxy.Fault
}

func (sc *scene) notExecuted() {
	var strikes []strike
	for n := range sc.v.plan.units {
		strikes = append(strikes, strike{n + 1, "never reached the server", faultproxy.Fault{Kind: faultproxy.Dropped}})
	}
	sc.strikeTwice(append(strikes, strike{sc.v.plan.deciding, "was cut on its way to the server",
		cut(faultproxy.ToServer)}))
}

func (sc *scene) answerLost() {
	deciding := sc.v.plan.deciding
	decisive := []strike{
		{deciding, "was answered, and the answer lost", faultproxy.Fault{Kind: faultproxy.ReplyReset}},
		{deciding, "was answered, and the connection closed", faultproxy.Fault{Kind: faultproxy.ReplyClosed}},
		{deciding, "was answered, and the answer cut in the middle", cut(faultproxy.ToClient)},
		{deciding, "was executed without its Sync", faultproxy.Fault{Kind: faultproxy.CutBeforeSync}},
		{deciding, "came late, when the connection was already gone",
			faultproxy.Fault{Kind: faultproxy.Delayed, Delay: 20 * time.Millisecond}},
	}
	var strikes []strike
	for n := range sc.v.plan.units {
		if n+1 == deciding {
			strikes = append(strikes, decisive...)
			continue
		}
		strikes = append(strikes, strike{n + 1, "was answered, and the answer lost", decisive[n%3].fault})
	}
	sc.strikeTwice(strikes)
}

// cut returns a fault that cuts a statement, or its answer, in the middle.
func cut(direction faultproxy.Direction) faultproxy.Fault {
	return faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: direction, Bytes: middle}
}

// Texts for a case whose Deduper gives up at once: the first always, the second if the tool returns
// an answer, and a wrong one.
const (
	oneAttempt     = ", with a Deduper that makes one attempt"
	oneAttemptHint = "; did the tool meet an error and answer all the same? It must return the error, or call again with the same key, Try.Key"
)

// strikeTwice tries all strikes with a Deduper as in production, which survives them, and with one
// that leaves them to the tool.
func (sc *scene) strikeTwice(strikes []strike) {
	once := sc.v.tool.with(func(o *dedup.Options) { o.Retry.MaxAttempts = 1 })
	for i, tool := range []Tool{sc.v.tool, once} {
		s := sc.open(tool, nil)
		if s == nil {
			continue
		}
		for _, st := range strikes {
			sc.struck(s, st, i == 1)
		}
	}
}

// struck is a case in which a fault meets a call, which is then repeated.
func (sc *scene) struck(s *stage, st strike, once bool) {
	tr := sc.begin("%s %s", sc.v.plan.name(st.n), st.what)
	fault := st.fault
	fault.Where, fault.Skip = executes, st.n-1
	armed := s.proxy.Arm(fault)
	err := tr.call(s) // may fail; the next call must be answered
	if once {
		tr.what += oneAttempt
		if err == nil {
			tr.hint = oneAttemptHint
		}
	}
	tr.applied(armed)
	tr.callUntilAnswered(s)
	tr.callUntilAnswered(s)
	tr.end()
}
