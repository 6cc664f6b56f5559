package deduptest

import (
	"errors"
	"time"

	"github.com/tooldedup/dedup"
)

// repeated needs no fault: the repeat of the call is the event that is tested.
func (sc *scene) repeated() {
	s := sc.open(sc.v.tool, nil)
	if s == nil {
		return
	}
	tr := sc.begin("called three times")
	for range 3 {
		tr.callUntilAnswered(s)
		sc.out.Faults++
	}
	tr.checkKept()
	tr.end()
}

// minKept is shorter than the time that any caller spends on retries.
const minKept = time.Minute

// checkKept checks how long the records are kept.
func (tr *trial) checkKept() {
	var kept *time.Duration
	err := tr.v.direct.QueryRow(tr.ctx, `SELECT min(forget_at - created_at) FROM `+tr.v.tool.records()).Scan(&kept)
	switch {
	case err != nil:
		tr.problemf("reading the records: %v", err)
	case kept != nil && *kept < minKept:
		tr.problemf("a record is forgotten after %s, and a retry that comes later has a second effect; keep it at least as long as callers try, by Call.Retention", *kept)
	}
}

func (sc *scene) otherArguments() {
	s := sc.open(sc.v.tool, nil)
	if s == nil {
		return
	}
	tr := sc.begin("called with a key that was used with other arguments")
	tr.callUntilAnswered(s)
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
	tr.callUntilAnswered(s)
	tr.end()
}
