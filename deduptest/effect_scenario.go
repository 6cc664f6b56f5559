package deduptest

import (
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// effectPlay is a scenario of VerifyEffect. tried says for which tools; nil means for all.
type effectPlay struct {
	scenario Scenario
	tried    func(*outside) bool
	run      func(*effectScene)
}

// effectPlays are the scenarios, each with a mistake that it finds.
func effectPlays() []effectPlay {
	return []effectPlay{
		// An Effect.In that does not depend on n, and arguments that are left out.
		{"repeated", nil, (*effectScene).repeated},
		// A client that sends a request again by itself.
		{"request lost", nil, func(sc *effectScene) { sc.lost("the request is lost", requestLost) }},
		// A key of each attempt; an error that is taken for an answer; a look-up that finds nothing.
		{"answer lost", nil, func(sc *effectScene) { sc.lost("the answer is lost", answerLost) }},
		// A Settles that is too short.
		{"late effect", func(o *outside) bool { return o.provider.ActsLate > 0 }, func(sc *effectScene) { sc.lost("the effect comes late, and no answer", lateAndLost) }},
		// A status of 500 or 409 that is taken for a refusal.
		{"error answered", nil, (*effectScene).answered},
		// A look-up by the input.
		{"equal inputs", func(o *outside) bool { return o.finds }, (*effectScene).equal},
		// A refusal that is taken for an error.
		{"refused", func(o *outside) bool { return o.provider.Refuses }, (*effectScene).refused},
		// A Finish that writes past its transaction.
		{"process killed", nil, (*effectScene).killed},
		// A KeyKept that is too long.
		{"key forgotten", (*outside).forgets, (*effectScene).forgotten},
	}
}

// try is a case in which something goes wrong with a call.
func (sc *effectScene) try(what string, f faults) {
	tr := sc.begin(f, "%s", what)
	tr.certain = len(f.requests) == 0
	sc.out.Faults++
	tr.on(sc.v.one)
	tr.end()
}

// tryKilled is a case in which its process dies at a step, too.
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

// repeated calls again, in both processes, at once, and with another input.
func (sc *effectScene) repeated() {
	v := sc.v
	tr := sc.begin(faults{}, "called by eight callers at once in two processes, and again")
	tr.certain = true
	const callers = 8
	replies := make(chan told, callers)
	for i := range callers {
		p := v.one
		if i%2 == 1 {
			p = v.other
		}
		go func() { replies <- p.wait(sc.ctx, tr.call, tr.n) }()
	}
	for range callers {
		if r := tr.took(<-replies); r.err != nil {
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

// lost takes away answers: the first one, the first two, and with the first one that of a
// look-up.
func (sc *effectScene) lost(what string, m mishap) {
	sc.try(what, fail(m))
	sc.try(what+", and the next request", fail(m, requestLost))
	sc.try(what+", and the next answer", fail(m, answerLost))
	if sc.v.tool.finds {
		sc.try(what+", and two look-ups fail", faults{requests: []mishap{m}, lookups: 2})
	}
}

// fail has requests fail.
func fail(requests ...mishap) faults { return faults{requests: requests} }

// answered has requests answered with errors that say nothing of the effect.
func (sc *effectScene) answered() {
	sc.try("it fails with 500 before it happened", fail(mishap{err: ErrFault}))
	sc.try("it fails with 500 after it happened", fail(mishap{err: ErrFault, happens: true}))
	sc.try("it is answered with 409 after it happened", fail(mishap{err: ErrConflict, happens: true}))
	sc.try("it is answered with 429 before it happened", fail(mishap{err: ErrBusy}))
	if sc.v.tool.keyKept > 0 && sc.v.tool.provider.KeyKept > 0 { // else the tool may take a 429 at its word
		sc.try("it is answered with 429 after it happened", fail(mishap{err: ErrBusy, happens: true}))
	}
}

// equal makes a second call with the input of one that has happened.
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

// refused has the provider refuse, at once and after an answer was lost.
func (sc *effectScene) refused() {
	sc.try("the provider refuses", faults{refusing: true})
	sc.try("the provider refuses, and the first answer is lost", faults{refusing: true, requests: []mishap{answerLost}})
	sc.try("the provider refuses, and the first request is lost", faults{refusing: true, requests: []mishap{requestLost}})
}

// killed has processes die at each step of a call.
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

// forgets says whether there is a time after which a key is of no use.
func (o *outside) forgets() bool {
	return o.keyKept > 0 && min(o.keyKept, o.provider.KeyKept) < external.Forever
}

// forgotten has a process come back at the last moment at which the key is sent again, stand
// still once more before it sends it, and come back when the key is forgotten.
func (sc *effectScene) forgotten() {
	tool := sc.v.tool
	if held := tool.holds(); held != external.Forever && held > time.Second {
		tr := sc.back(held - time.Second)
		halted, letGo := sc.v.other.steps.haltAt(external.EventSending)
		defer letGo()
		advanced := make(chan error, 1)
		go func() { advanced <- tr.advance() }()
		select {
		case <-halted: // no request arrives later than two leases after its attempt began
			tr.elapse(2*tool.lease - time.Second)
			letGo()
			tr.went(<-advanced)
		case err := <-advanced: // it was looked up
			letGo()
			tr.went(err)
		}
		tr.end()
	}
	if kept := tool.provider.KeyKept; kept != external.Forever {
		sc.back(kept + time.Second).end()
	}
}

// back is a case in which a process has died when the effect had happened, and nobody was
// there for so long.
func (sc *effectScene) back(after time.Duration) *effectTrial {
	tr := sc.begin(faults{}, "killed when it had happened, and back after %s", after)
	tr.dies(external.EventAnswered)
	op := tr.operation()
	tr.elapse(after - op.Now.Sub(op.SentAt))
	return tr
}
