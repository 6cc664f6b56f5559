package deduptest

import (
	"errors"

	"github.com/tooldedup/dedup"
)

// repeated needs no fault: that the call is repeated is what happens to it.
func (sc *scene) repeated() {
	s := sc.open(nil)
	if s == nil {
		return
	}
	tr := sc.begin("called three times")
	for range 3 {
		tr.insist(s)
		sc.out.Faults++
	}
	tr.end()
}

func (sc *scene) restarted() {
	before := sc.open(nil)
	if before == nil {
		return
	}
	tr := sc.begin("called, and called again after pool and Deduper were closed and made anew")
	tr.insist(before)
	tr.checkEffects(1)
	sc.shut(before)
	sc.stages = nil

	after := sc.open(nil)
	if after == nil {
		return
	}
	tr.before++ // the new stage's own first call
	tr.insist(after)
	tr.insist(after)
	sc.out.Faults++
	tr.end()
}

func (sc *scene) otherArguments() {
	s := sc.open(nil)
	if s == nil {
		return
	}
	tr := sc.begin("called with a key that was used with other arguments")
	tr.insist(s)
	r := <-tr.start(sc.ctx, s, 1)
	sc.out.Faults++
	switch {
	case r.err == nil:
		tr.note("other arguments: answer %s", r.text)
		tr.problemf("other arguments get an answer; want dedup.ErrKeyReused: are all arguments in dedup.Call.Args, and do they depend on Try.Variant?")
	case !errors.Is(r.err, dedup.ErrKeyReused):
		tr.note("other arguments: error: %v", r.err)
		tr.problemf("other arguments get an error that is not dedup.ErrKeyReused: %v", r.err)
	}
	tr.checkEffects(1)
	tr.insist(s)
	tr.end()
}
