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
// a is the operation's act in this process, nil if there is none. own is true if this call started
// it. r is the row as it was read, nil if there was none.
func (w *waiting) wait(a *act, own bool, r *row) (err error) {
	switch {
	case w.impatient && !own:
		return errWaited
	case a != nil:
		select {
		case <-a.over:
		case <-w.over.Done():
			err = context.Cause(w.over)
		}
	default:
		next := w.pause
		if r != nil && r.dueAt != nil {
			next = min(next, max(r.dueAt.Sub(r.now), firstPause))
		}
		w.pause = min(w.pause*5/4, lastPause)
		err = pause(w.over, next)
	}
	if err == nil || errors.Is(err, errWaited) {
		return err
	}
	return fmt.Errorf("dedup: while waiting for the effect: %w", err)
}
