package lab

import (
	"context"
	"errors"
	"fmt"
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

// Patience is longer than anything takes on a slow machine. No shorter time decides a campaign.
const Patience = 10 * time.Minute

// pauseStep and longestPause are by how much the pause grows between two tries, and how long it is at most.
const pauseStep, longestPause = 5 * time.Millisecond, 100 * time.Millisecond

// Hopeless is an error behind which no further try is made.
type Hopeless struct{ Err error }

func (e Hopeless) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e Hopeless) Unwrap() error { return e.Err }

// Insist tries until there is no error, as an orchestrator does, and for at most [Patience]. n is the number
// of the try, from 0.
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

// Deliver calls until there is an answer. A call that is given up, though ctx goes on, is unanswered.
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
