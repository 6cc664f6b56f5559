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
	limit     <-chan time.Time
	stop      func()
	pause     time.Duration
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

func newWaiting(max, fallback time.Duration) *waiting {
	if max == 0 {
		max = fallback
	}
	w := &waiting{began: time.Now(), impatient: max < 0, stop: func() {}, pause: firstPause}
	if max > 0 {
		timer := time.NewTimer(max)
		w.limit, w.stop = timer.C, func() { timer.Stop() }
	}
	return w
}

var errWaited = errors.New("MaxWait has passed")

// wait returns when it is worth looking again, or why not to wait any longer. a is what
// this process does for the operation, nil where another one does it, and r the row as it was read, nil where
// there was none.
func (w *waiting) wait(ctx context.Context, a *act, own bool, r *row) error {
	if w.impatient && !own {
		return errWaited
	}
	var done <-chan struct{}
	var again <-chan time.Time
	if a != nil {
		done = a.over
	} else {
		pause := w.pause
		if r != nil && r.dueAt != nil {
			pause = min(pause, max(r.dueAt.Sub(r.now), firstPause))
		}
		w.pause = min(w.pause*5/4, lastPause)
		timer := time.NewTimer(pause)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-done:
		return nil
	case <-again:
		return nil
	case <-w.limit:
		return errWaited
	case <-ctx.Done():
		return fmt.Errorf("dedup: while waiting for the effect: %w", context.Cause(ctx))
	}
}
