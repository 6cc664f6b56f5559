package lab

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// Crowd does jobs on so many goroutines, and returns after the last one.
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

// Patience is longer than any step takes on a slow machine. No campaign depends on a shorter time.
const Patience = 10 * time.Minute

// The pause between two tries grows by pauseStep up to longestPause.
const pauseStep, longestPause = 5 * time.Millisecond, 100 * time.Millisecond

// Hopeless is an error that ends all tries.
type Hopeless struct{ Err error }

func (e Hopeless) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e Hopeless) Unwrap() error { return e.Err }

// Insist calls try until it succeeds, as an orchestrator does, for at most [Patience]. n is the
// number of the try, from 0.
func Insist(ctx context.Context, try func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for n := 0; ; n++ {
		err := try(ctx, n)
		if err == nil {
			return nil
		}
		pause := min(time.Duration(n)*pauseStep, longestPause)
		if errors.As(err, &Hopeless{}) || !Pause(ctx, pause) {
			return fmt.Errorf("no answer after %d tries: %w", n+1, err)
		}
	}
}

// Deliver repeats a call until it has an answer. A call that fails while ctx goes on is unanswered.
func (l *Ledger) Deliver(ctx context.Context, c *Client, call Caller, key string) error {
	err := Insist(ctx, func(ctx context.Context, n int) error {
		run, err := call(ctx, c.Try(n), key)
		if err == nil {
			l.Answered(key, run)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		l.Unanswered(key)
	}
	return err
}

// Pause waits for d and reports whether ctx goes on.
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
