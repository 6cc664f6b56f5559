package deduptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
)

// trial is one case of a scenario: the calls with one key, which must have one
// effect and one answer.
type trial struct {
	*scene
	what    string // what happens to the calls
	key     string
	before  int // effects
	first   string
	history []string // what each call came to
	trouble []string
	hint    string // what may be the cause, should there be trouble
}

// begin starts a case with a fresh key.
func (sc *scene) begin(format string, args ...any) *trial {
	tr := &trial{scene: sc, what: fmt.Sprintf(format, args...), key: sc.v.newKey()}
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

// end checks the effects and reports all that was wrong.
func (tr *trial) end() {
	tr.v.counted = tr.checkEffects(1)
	if len(tr.trouble) > 0 {
		tr.failf("%s: %s [%s]%s", tr.what, strings.Join(tr.trouble, "; "), strings.Join(tr.history, ", "), tr.hint)
	}
}

// checkEffects counts the effects of the case, and returns all in the database.
func (tr *trial) checkEffects(want int) (now int) {
	now, err := tr.v.count(tr.ctx)
	switch {
	case err != nil:
		tr.problemf("%v", err)
		return -1
	case now-tr.before != want:
		tr.problemf("%d effects instead of %d", now-tr.before, want)
	}
	return now
}

// problemf tells of something wrong, once: two hundred calls may all have it.
func (tr *trial) problemf(format string, args ...any) {
	if problem := fmt.Sprintf(format, args...); !slices.Contains(tr.trouble, problem) {
		tr.trouble = append(tr.trouble, problem)
	}
}

// call makes one call on s and takes its reply.
func (tr *trial) call(s *stage) error { return tr.took(<-tr.start(tr.ctx, s, 0)) }

// start makes one call on s.
func (tr *trial) start(ctx context.Context, s *stage, variant int) <-chan reply {
	tr.out.Calls++
	return tr.v.tool.start(ctx, tr.v.patience, s, tr.key, variant)
}

// took judges a reply: an answer must be the first answer, and its effect be
// there. An error is for the caller to judge, unless it should never be.
func (tr *trial) took(r reply) error {
	var panicked *panicError
	if r.err != nil {
		tr.note("error: %v", r.err)
		if errors.Is(r.err, errStuck) || errors.Is(r.err, errWholeResult) ||
			errors.As(r.err, &panicked) && panicked.value != errBomb {
			tr.problemf("%v", r.err)
		}
		return r.err
	}
	tr.note("answer %s", r.text)
	switch {
	case tr.first == "":
		tr.first = r.text
		if n, err := tr.v.count(tr.ctx); err == nil && n == tr.before {
			tr.problemf("the call is answered without an error, and has no effect in the database")
		}
	case r.text != tr.first:
		tr.problemf("two callers get different answers")
	}
	return nil
}

// note keeps what a call came to. Of many calls the last ones are left out.
func (tr *trial) note(format string, args ...any) {
	const most, longest = 6, 160
	switch n := len(tr.history); {
	case n < most:
		tr.history = append(tr.history, clipped(fmt.Sprintf(format, args...), longest))
	case n == most:
		tr.history = append(tr.history, "…")
	}
}

const (
	maxTries   = 3
	retryPause = 10 * time.Millisecond
)

// insist calls as a caller does who wants the answer: again, with the same key, as
// long as dedup.IsRetryable says so, and a few times after any other error.
func (tr *trial) insist(s *stage) {
	ctx, cancel := context.WithTimeout(tr.ctx, tr.v.patience)
	defer cancel()
	for try := 1; ; try++ {
		err := tr.call(s)
		if err == nil || errors.Is(err, errStuck) {
			return
		}
		if try >= maxTries && !dedup.IsRetryable(err) || !pause(ctx, retryPause) {
			tr.problemf("the call still fails when nothing disturbs it any more: %v", err)
			return
		}
	}
}

// pause waits for d and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// applied counts a fault that happened and is over, or says that nothing was
// tested.
func (tr *trial) applied(fault *Injected) {
	ctx, cancel := context.WithTimeout(tr.ctx, tr.v.patience)
	defer cancel()
	fault.Disarm()
	if fault.Count() == 0 {
		tr.problemf("nothing was tested: the fault %q was not applied, because the call did not get to that statement", fault.kind)
		return
	}
	tr.out.Faults++
	if err := fault.WaitSettled(ctx); err != nil {
		tr.problemf("%v", err)
	}
}

// reached waits until a fault holds the call that replies will be of, or says that
// nothing was tested.
func (tr *trial) reached(fault *Injected, replies <-chan reply) bool {
	select {
	case <-fault.Applied():
		return true
	case r := <-replies:
		_ = tr.took(r)
		fault.Disarm()
		tr.problemf("nothing was tested: the call ended before it came to the statement at which it was to be held")
		return false
	}
}
