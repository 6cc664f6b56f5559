package deduptest

import (
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// effectPlay is a scenario of VerifyEffect. tried reports whether it applies to a tool; nil means
// that it applies to all.
type effectPlay struct {
	scenario Scenario
	tried    func(*untypedEffect) bool
	run      func(*effectScene)
}

// effectPlays are the scenarios, each with a mistake that it finds.
func effectPlays() []effectPlay {
	return []effectPlay{
		// An Effect.In that does not depend on n, and arguments that are left out.
		{"repeated", nil, (*effectScene).repeated},
		// A client that repeats a request.
		{"request lost", nil, func(sc *effectScene) { sc.lost("the request is lost", requestLost) }},
		// A key that differs between attempts; an error that counts as an answer; a look-up that
		// finds nothing.
		{"answer lost", nil, func(sc *effectScene) { sc.lost("the answer is lost", answerLost) }},
		// A Settles that is too short.
		{"late effect", func(o *untypedEffect) bool { return o.provider.ActsLate > 0 }, func(sc *effectScene) { sc.lost("the effect comes late, and no answer", lateAndLost) }},
		// A status of 500 or 409 that counts as a refusal.
		{"error answered", nil, (*effectScene).answered},
		// A look-up by the input.
		{"equal inputs", func(o *untypedEffect) bool { return o.finds }, (*effectScene).equal},
		// A refusal that counts as an error.
		{"refused", func(o *untypedEffect) bool { return o.provider.Refuses }, (*effectScene).refused},
		// A Finish that writes outside its transaction.
		{"process killed", nil, (*effectScene).killed},
		// A KeyKept that is too long.
		{"key forgotten", (*untypedEffect).forgets, (*effectScene).forgotten},
	}
}

// try is a case in which faults meet a call's requests.
func (sc *effectScene) try(what string, f faults) {
	tr := sc.begin(f, "%s", what)
	tr.certain = len(f.requests) == 0
	sc.out.Faults++
	tr.on(sc.v.one)
	tr.end()
}

// tryKilled is a case in which the process also dies at a step.
func (sc *effectScene) tryKilled(what string, f faults, step external.EventKind) {
	tr := sc.begin(f, "%s", what)
	tr.dies(step)
	tr.end()
}

// dies makes the call in a process that dies at a step.
func (tr *effectTrial) dies(step external.EventKind) {
	tr.out.Faults++
	came := tr.v.one.steps.dieAt(step)
	tr.on(tr.v.one)
	if !came() {
		tr.problemf("nothing was tested: the call did not come to the step %q", step)
	}
}

// repeated calls in both processes, at once, and again, and with another input.
func (sc *effectScene) repeated() {
	v := sc.v
	tr := sc.begin(faults{}, "called by eight callers at once in two processes, and again")
	tr.certain = true
	const callers = 8
	replies := make(chan callResult, callers)
	for i := range callers {
		p := v.one
		if i%2 == 1 {
			p = v.other
		}
		go func() { replies <- p.wait(sc.ctx, tr.call, tr.n) }()
	}
	for range callers {
		if r := tr.checkReply(<-replies); r.err != nil {
			tr.problemf("a caller gets an error: %v", r.err)
		}
	}
	sc.out.Faults += callers
	other, n := v.next()
	other.Key = tr.call.Key
	if r := v.one.call(sc.ctx, other, n); !errors.Is(r.err, dedup.ErrKeyReused) {
		tr.problemf("a call with another input is not answered with dedup.ErrKeyReused, but with %s %v; does Effect.In depend on n?", r.text, r.err)
	}
	tr.end()
}

// lost takes answers away: the first one, the first two, and the first one together with two
// look-ups.
func (sc *effectScene) lost(what string, m mishap) {
	sc.try(what, fail(m))
	sc.try(what+", and the next request", fail(m, requestLost))
	sc.try(what+", and the next answer", fail(m, answerLost))
	if sc.v.tool.finds {
		sc.try(what+", and two look-ups fail", faults{requests: []mishap{m}, lookups: 2})
	}
}

// fail returns faults for the next requests.
func fail(requests ...mishap) faults { return faults{requests: requests} }

// answered lets requests fail with errors that do not tell whether the effect happened.
func (sc *effectScene) answered() {
	sc.try("it fails with 500 before it happened", fail(mishap{err: ErrFault}))
	sc.try("it fails with 500 after it happened", fail(mishap{err: ErrFault, happens: true}))
	sc.try("it is answered with 409 after it happened", fail(mishap{err: ErrConflict, happens: true}))
	sc.try("it is answered with 429 before it happened", fail(mishap{err: ErrBusy}))
	if sc.v.tool.keyKept > 0 && sc.v.tool.provider.KeyKept > 0 { // otherwise the tool may trust a 429
		sc.try("it is answered with 429 after it happened", fail(mishap{err: ErrBusy, happens: true}))
	}
}

// equal makes a second call with the input of a call whose effect happened.
func (sc *effectScene) equal() {
	for what, m := range map[string]mishap{"request": requestLost, "answer": answerLost} {
		first := sc.begin(faults{}, "the first of two calls with equal inputs")
		first.certain = true
		first.on(sc.v.one)
		first.end()
		tr := sc.begin(fail(m), "the %s of the second of two calls with equal inputs is lost", what)
		tr.n = first.n
		tr.on(sc.v.one)
		sc.out.Faults++
		tr.end()
	}
}

// refused lets the provider refuse, at once and after an answer was lost.
func (sc *effectScene) refused() {
	sc.try("the provider refuses", faults{refusing: true})
	sc.try("the provider refuses, and the first answer is lost", faults{refusing: true, requests: []mishap{answerLost}})
	sc.try("the provider refuses, and the first request is lost", faults{refusing: true, requests: []mishap{requestLost}})
}

// killed lets processes die at each step of a call.
func (sc *effectScene) killed() {
	for _, step := range []external.EventKind{
		external.EventClaimed, external.EventSending, external.EventAnswered, external.EventRecording,
		external.EventEnding, external.EventRecorded,
	} {
		sc.tryKilled(fmt.Sprintf("killed when it is %s", step), faults{}, step)
	}
	sc.tryKilled("killed when the answer was lost", fail(answerLost), external.EventAnswered)
	sc.tryKilled("killed when the request was lost", fail(requestLost), external.EventAnswered)
}

// forgets reports whether the key becomes useless after some time.
func (o *untypedEffect) forgets() bool {
	return o.keyKept > 0 && min(o.keyKept, o.provider.KeyKept) < external.Forever
}

// forgotten lets a process return at the last moment at which it may send the key again, then halts
// it before it sends. Another case returns when the provider has forgotten the key.
func (sc *effectScene) forgotten() {
	tool := sc.v.tool
	if held := tool.keyUsable(); held != external.Forever && held > time.Second {
		tr := sc.returnAfter(held - time.Second)
		halted, letGo := sc.v.other.steps.haltAt(external.EventSending)
		defer letGo()
		advanced := make(chan error, 1)
		go func() { advanced <- tr.advance() }()
		select {
		case <-halted: // no request arrives later than two leases after its attempt began
			tr.elapse(2*tool.lease - time.Second)
			letGo()
			tr.checkAdvance(<-advanced)
		case err := <-advanced: // it was looked up
			letGo()
			tr.checkAdvance(err)
		}
		tr.end()
	}
	if kept := tool.provider.KeyKept; kept != external.Forever {
		sc.returnAfter(kept + time.Second).end()
	}
}

// returnAfter is a case in which a process died after the effect happened, and no process acted for
// the given time.
func (sc *effectScene) returnAfter(after time.Duration) *effectTrial {
	tr := sc.begin(faults{}, "killed when it had happened, and back after %s", after)
	tr.dies(external.EventAnswered)
	op := tr.operation()
	tr.elapse(after - op.Now.Sub(op.SentAt))
	return tr
}
