package external

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waiting tracks how long a call has waited and how long it still may.
type waiting struct {
	began     time.Time
	impatient bool // MaxWait is negative: wait for this call's own act only, once
	acted     bool // this call has started an act
	// over ends with errWaited after MaxWait. Statements use the call's own context.
	over  context.Context //nolint:containedctx // lives as long as one call
	stop  context.CancelFunc
	pause time.Duration
	// failed is the error of the last act that ended while the call waited for it, nil if it had
	// none.
	failed error
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

var errWaited = errors.New("MaxWait has passed")

func newWaiting(ctx context.Context, most time.Duration) *waiting {
	w := &waiting{began: time.Now(), impatient: most < 0, over: ctx, stop: func() {}, pause: firstPause}
	if most > 0 {
		w.over, w.stop = context.WithTimeoutCause(ctx, most, errWaited)
	}
	return w
}

// wait returns nil when the caller should read the operation again, or the reason to stop waiting.
// After an act that failed it pauses. a is the operation's act in this process, nil if there is
// none. own is true if this call started it. r is the row as it was read, nil if there was none.
func (w *waiting) wait(a *act, own bool, r *row) (err error) {
	switch {
	case w.impatient && !own:
		err = errWaited
	case a != nil:
		select {
		case <-a.over:
		case <-w.over.Done():
			err = context.Cause(w.over)
		}
		if a.isDone() {
			w.failed = a.err
			if err == nil && !a.answered && a.err != nil { // the next act may fail at once too
				err = w.rest(w.pause)
			}
		}
	default:
		next := w.pause
		if r != nil && r.dueAt != nil {
			next = min(next, max(r.dueAt.Sub(r.now), firstPause))
		}
		err = w.rest(next)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, errWaited) {
		err = fmt.Errorf("dedup: while waiting for the effect: %w", err)
	}
	if w.failed != nil { // as text, because a refusal in it is not the call's answer
		err = fmt.Errorf("%w; an act failed: %s", err, w.failed.Error())
	}
	return err
}

// rest pauses for next. The next rest may be longer.
func (w *waiting) rest(next time.Duration) error {
	w.pause = min(w.pause*5/4, lastPause)
	return pause(w.over, next)
}
