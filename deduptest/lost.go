package deduptest

import "time"

// The shortest request and the shortest answer of a statement have 11 bytes, so a
// cut behind one of the first ten is always in the middle.
const middle = 10

// strike is a fault that meets the nth statement of a call.
type strike struct {
	n     int
	what  string // happens to the statement
	fault Fault
}

func (sc *scene) notExecuted() {
	var strikes []strike
	for n := range sc.v.plan.units {
		strikes = append(strikes, strike{n + 1, "never reached the server", Fault{Kind: DropRequest}})
	}
	sc.strikeTwice(append(strikes, strike{sc.v.plan.deciding, "was cut on its way to the server",
		Fault{Kind: CutRequest, Bytes: 1 + sc.rng.Int64N(middle)}}))
}

func (sc *scene) answerLost() {
	deciding := sc.v.plan.deciding
	decisive := []strike{
		{deciding, "was answered, and the answer lost", Fault{Kind: ResetAnswer}},
		{deciding, "was answered, and the connection closed", Fault{Kind: CloseAnswer}},
		{deciding, "was answered, and the answer cut in the middle", Fault{Kind: CutAnswer, Bytes: 1 + sc.rng.Int64N(middle)}},
		{deciding, "was executed without its Sync", Fault{Kind: OmitSync}},
		{deciding, "came late, when the connection was already gone",
			Fault{Kind: LateRequest, Delay: time.Duration(1+sc.rng.IntN(40)) * time.Millisecond}},
	}
	others := []Kind{ResetAnswer, CloseAnswer, CutAnswer}
	var strikes []strike
	for n := range sc.v.plan.units {
		if n+1 == deciding {
			strikes = append(strikes, decisive...)
			continue
		}
		kind := others[sc.rng.IntN(len(others))]
		strikes = append(strikes, strike{n + 1, "was answered, and the answer lost",
			Fault{Kind: kind, Bytes: 1 + sc.rng.Int64N(middle)}})
	}
	sc.strikeTwice(strikes)
}

// strikeTwice tries all strikes on a Deduper as in production, which gets over
// them, and again on one that leaves them to the tool.
func (sc *scene) strikeTwice(strikes []strike) {
	sc.strikeAll(sc.open(nil), strikes)
	sc.strikeAll(sc.openOnce(), strikes)
}

// strikeAll tries nothing where no stage could be opened.
func (sc *scene) strikeAll(s *stage, strikes []strike) {
	if s == nil {
		return
	}
	for _, st := range strikes {
		sc.struck(s, st)
	}
}

// What is told of a case whose Deduper gives up at once: always, and where the tool
// answers all the same and is wrong.
const (
	oneAttempt     = ", with a Deduper that makes one attempt"
	oneAttemptHint = "; did the tool meet an error and answer all the same? It must return the error, or call again with the same key, Try.Key"
)

// struck is a case in which a fault meets a call, which then is made again.
func (sc *scene) struck(s *stage, st strike) {
	tr := sc.begin("%s %s", sc.v.plan.name(st.n), st.what)
	if s.once {
		tr.what += oneAttempt
	}
	fault := st.fault
	fault.At, fault.Skip = AtStatement, st.n-1
	injected := s.proxy.Inject(fault)
	err := tr.call(s) // whether it gets over the fault or fails: the next one must be answered
	if s.once && err == nil {
		tr.hint = oneAttemptHint
	}
	tr.applied(injected)
	tr.insist(s)
	tr.insist(s)
	tr.end()
}
