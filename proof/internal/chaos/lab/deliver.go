package lab

import (
	"context"
	"iter"
	"sync"
	"time"
)

// Crowd does jobs, so many at once, and returns when all are done.
func Crowd(workers int, jobs iter.Seq[func()]) {
	queue := make(chan func())
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for job := range queue {
				job()
			}
		})
	}
	for job := range jobs {
		queue <- job
	}
	close(queue)
	wg.Wait()
}

// Deliver calls again until there is an answer, as an orchestrator does, at most so often. It
// returns the last error where there is none.
func (l *Ledger) Deliver(ctx context.Context, call Caller, key string, tries int) (err error) {
	for range tries {
		var run int64
		if run, err = call(ctx, key); err == nil {
			l.Answered(key, run)
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
	l.Unanswered(key)
	return err
}

// Pause waits, and reports whether ctx goes on.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
