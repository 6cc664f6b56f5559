package external

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waiting is how long a call may wait, and how it does.
type waiting struct {
	began     time.Time
	impatient bool // it waits for what it does itself, once
	acted     bool // it has done something
	// over is done with errWaited when MaxWait has passed. The call's statements go on until its own context ends.
	over  context.Context //nolint:containedctx // it is that of one call
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

// wait returns when it is worth looking again, or why not to wait any longer. a is what
// this process does for the operation, nil where another one does it, and r the row as it was read, nil where
// there was none.
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
