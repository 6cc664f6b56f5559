package deduptest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// trial is one case of a scenario: the calls with one key, which must have one effect and one
// answer. If the answer is not kept, only the call that runs the effect gets it.
type trial struct {
	*scene
	notes
	key    string
	before int // the number of effects before the case
}

// begin starts a case with a fresh key.
func (sc *scene) begin(format string, args ...any) *trial {
	tr := &trial{scene: sc, notes: notes{what: fmt.Sprintf(format, args...)}, key: sc.v.newKey()}
	sc.out.Cases++
	n, err := sc.v.count(sc.ctx)
	if err != nil {
		tr.problemf("%v", err)
	} else if known := sc.v.counted; known >= 0 && known != n {
		tr.problemf("there were %d effects after the case before and %d now: one came late, or something else writes to the database", known, n)
	}
	tr.before = n
	return tr
}

// end checks the effects and reports the case's problems.
func (tr *trial) end() {
	tr.v.counted = tr.checkEffects(1)
	tr.report(tr.out)
}

// checkEffects checks the number of effects of the case. It returns the number of all effects in
// the database.
func (tr *trial) checkEffects(want int) (now int) {
	now, err := tr.v.count(tr.ctx)
	switch {
	case err != nil:
		tr.problemf("%v", err)
		return -1
	case now-tr.before != want:
		tr.problemf("%d effects instead of %d", now-tr.before, want)
	}
	tr.checkTables(now)
	return now
}

// call makes one call on s and judges its reply.
func (tr *trial) call(s *stage) error { return tr.checkReply(<-tr.start(tr.ctx, s, 0)) }

// start makes one call on s.
func (tr *trial) start(ctx context.Context, s *stage, variant int) <-chan reply {
	tr.out.Calls++
	return tr.v.tool.start(ctx, tr.v.patience, s, tr.key, variant)
}

// checkReply judges a reply: an answer must equal the first answer, and its effect must exist. It
// returns an error of the call, and reports it if it is never right. It returns nil for an answer
// that was never kept, because the call ran.
func (tr *trial) checkReply(r reply) error {
	if r.err != nil {
		tr.note("error: %v", r.err)
		if expired, ok := notKept(r.err); ok {
			tr.checkNotKept(expired)
			return nil // end counts the effect
		}
		panicked, ok := errors.AsType[*panicError](r.err)
		if errors.Is(r.err, errStuck) || errors.Is(r.err, errWholeResult) || ok && panicked.value != errBomb {
			tr.problemf("%v", r.err)
		}
		return r.err
	}
	if tr.answer(r.text) {
		if n, err := tr.v.count(tr.ctx); err == nil && n == tr.before {
			tr.problemf("the call is answered without an error, and has no effect in the database")
		}
	}
	return nil
}

// notKept returns the ErrExpired of a call whose answer was never kept. ok is false for another
// error.
func notKept(err error) (expired *dedup.Error, ok bool) {
	expired, ok = errors.AsType[*dedup.Error](err)
	return expired, ok && expired.Kind == dedup.ErrExpired && expired.ExpiredAt.IsZero()
}

// checkNotKept reports an ErrExpired that withholds an answer: the record has it. A record with the
// key counts if it has the scope and the tool of the error, or if the error names none.
func (tr *trial) checkNotKept(expired *dedup.Error) {
	var kept bool
	err := tr.v.direct.QueryRow(tr.ctx, `SELECT EXISTS (SELECT FROM `+tr.v.tool.records()+`
 WHERE key = $1 AND result IS NOT NULL AND $2 IN ('', scope) AND $3 IN ('', tool))`,
		tr.key, expired.Scope, expired.Tool).Scan(&kept)
	switch {
	case err != nil:
		tr.problemf("reading the records: %v", err)
	case kept:
		tr.problemf("a call fails with dedup.ErrExpired although its record has the answer; return the Value of the dedup.Result")
	}
}

const (
	maxTries   = 3
	retryPause = 10 * time.Millisecond
)

// callUntilAnswered calls as a caller does that needs the answer: with the same key, as long as
// dedup.IsRetryable allows, and a few times after any other error.
func (tr *trial) callUntilAnswered(s *stage) {
	ctx, cancel := context.WithTimeout(tr.ctx, tr.v.patience)
	defer cancel()
	for try := 1; ; try++ {
		err := tr.call(s)
		if err == nil || errors.Is(err, errStuck) {
			return
		}
		if within(retryPause, ctx.Done()) || try >= maxTries && !dedup.IsRetryable(err) {
			tr.problemf("the call still fails when nothing disturbs it any more: %v", err)
			return
		}
	}
}

// held arms a fault that holds the nth statement of a call on s, or its answer.
func (s *stage) held(n int, kind faultproxy.Kind) *faultproxy.Armed {
	return s.proxy.Arm(faultproxy.Fault{Kind: kind, Where: executes, Skip: n - 1})
}

// reached waits until a fault holds the call, or reports that nothing was tested. replies is the
// call's channel.
func (tr *trial) reached(fault *faultproxy.Armed, replies <-chan reply) bool {
	select {
	case <-fault.Applied():
		return true
	case r := <-replies:
		_ = tr.checkReply(r)
		fault.Disarm()
		tr.problemf("nothing was tested: the call ended before it came to the statement at which it was to be held")
		return false
	}
}

// applied disarms a fault and counts it, or reports that nothing was tested.
func (tr *trial) applied(fault *faultproxy.Armed) {
	ctx, cancel := context.WithTimeout(tr.ctx, tr.v.patience)
	defer cancel()
	fault.Disarm()
	if fault.Count() == 0 {
		tr.problemf("nothing was tested: the fault was not applied, because the call did not get to that statement")
		return
	}
	tr.out.Faults++
	if err := fault.WaitSettled(ctx); err != nil {
		tr.problemf("%v", err)
	}
}

// within waits for a signal, and reports whether it came in time.
func within(d time.Duration, signal <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-signal:
		return true
	case <-timer.C:
		return false
	}
}
