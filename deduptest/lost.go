package deduptest

import "time"

// The shortest request and the shortest answer of a statement have 11 bytes, so a
// cut behind one of the first ten is always in the middle.
const middle = 10

func (sc *scene) notExecuted() {
	s := sc.open(nil)
	if s == nil {
		return
	}
	for n := range sc.v.plan.units {
		sc.struck(s, n+1, "never reached the server", Fault{Kind: DropRequest})
	}
	sc.struck(s, sc.v.plan.deciding, "was cut on its way to the server",
		Fault{Kind: CutRequest, Bytes: 1 + sc.rng.Int64N(middle)})
}

func (sc *scene) answerLost() {
	s := sc.open(nil)
	if s == nil {
		return
	}
	decisive := []struct {
		what  string
		fault Fault
	}{
		{"was answered, and the answer lost", Fault{Kind: ResetAnswer}},
		{"was answered, and the connection closed", Fault{Kind: CloseAnswer}},
		{"was answered, and the answer cut in the middle", Fault{Kind: CutAnswer, Bytes: 1 + sc.rng.Int64N(middle)}},
		{"was executed without its Sync", Fault{Kind: OmitSync}},
		{"came late, when the connection was already gone",
			Fault{Kind: LateRequest, Delay: time.Duration(1+sc.rng.IntN(40)) * time.Millisecond}},
	}
	others := []Kind{ResetAnswer, CloseAnswer, CutAnswer}
	for n := range sc.v.plan.units {
		if n+1 == sc.v.plan.deciding {
			for _, d := range decisive {
				sc.struck(s, n+1, d.what, d.fault)
			}
			continue
		}
		kind := others[sc.rng.IntN(len(others))]
		sc.struck(s, n+1, "was answered, and the answer lost", Fault{Kind: kind, Bytes: 1 + sc.rng.Int64N(middle)})
	}
}

// struck is a case in which a fault meets the nth statement of a call, which then
// is made again.
func (sc *scene) struck(s *stage, n int, what string, fault Fault) {
	tr := sc.begin("%s %s", sc.v.plan.name(n), what)
	fault.At, fault.Skip = AtStatement, n-1
	injected := s.proxy.Inject(fault)
	_ = tr.call(s) // whether it gets over the fault or fails: the next one must be answered
	tr.applied(injected)
	tr.insist(s)
	tr.insist(s)
	tr.end()
}
