package scale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

// pace is a load that does not wait for its answers: rate calls a second fall
// due whatever became of those before, and are made by the first of the clients
// that is free.
type pace struct {
	rate    float64
	clients int
}

// paceTick is how often the calls that have fallen due are handed out. Timers of
// Go are not much finer.
const paceTick = time.Millisecond

// paceBacklog is how many calls may wait for a client. It is far more than a
// load can fall behind that is worth measuring.
const paceBacklog = 1 << 16

// outcome is one call of a paced load. Its time counts from when the call was
// handed out, so that waiting for a client is part of it: a server that stalls
// cannot hide the calls that it kept from being made.
type outcome struct {
	at   time.Time // when it was handed out
	took time.Duration
	err  error
}

// run makes calls until stop is closed or ctx ends, waits for all of them, and
// reports each to heard, from several goroutines.
func (p pace) run(ctx context.Context, stop <-chan struct{}, call func(context.Context) error, heard func(outcome)) {
	due := make(chan time.Time, paceBacklog)
	var clients sync.WaitGroup
	for range p.clients {
		clients.Go(func() { take(ctx, due, call, heard) })
	}
	p.handOut(ctx, stop, due)
	close(due)
	clients.Wait()
}

// take is a client.
func take(ctx context.Context, due <-chan time.Time, call func(context.Context) error, heard func(outcome)) {
	for at := range due {
		err := call(ctx)
		heard(outcome{at: at, took: time.Since(at), err: err})
	}
}

func (p pace) handOut(ctx context.Context, stop <-chan struct{}, due chan<- time.Time) {
	tick := time.NewTicker(paceTick)
	defer tick.Stop()
	start := time.Now()
	for handed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-tick.C:
		}
		for now := time.Now(); handed < int(now.Sub(start).Seconds()*p.rate); handed++ {
			select {
			case due <- now:
			case <-stop:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// while runs the load for as long as work takes, and returns its calls. One that
// fails is an error once both have ended.
func (p pace) while(ctx context.Context, call func(context.Context) error, work func() error) ([]outcome, error) {
	var heard ear
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { p.run(ctx, stop, call, heard.hear) })
	err := work()
	close(stop)
	load.Wait()
	all := heard.take()
	return all, errors.Join(err, firstError(all))
}

// ear collects outcomes.
type ear struct {
	mu    sync.Mutex
	heard []outcome
}

func (e *ear) hear(o outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, o)
}

// take returns what was heard since the last time.
func (e *ear) take() []outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.heard
	e.heard = nil
	return all
}

// sampleOf makes one sample of what was called in the given time.
func sampleOf(all []outcome, elapsed time.Duration) measure.Sample {
	s := measure.Sample{Calls: len(all), Elapsed: elapsed}
	for _, o := range all {
		s.Latencies = append(s.Latencies, o.took)
	}
	return s
}

// between is the sample of the calls that were handed out from one time up to
// another, whenever they were answered.
func between(all []outcome, from, to time.Time) measure.Sample {
	var some []outcome
	for _, o := range all {
		if !o.at.Before(from) && o.at.Before(to) {
			some = append(some, o)
		}
	}
	return sampleOf(some, to.Sub(from))
}

func firstError(all []outcome) error {
	for _, o := range all {
		if o.err != nil {
			return fmt.Errorf("a call of the load: %w", o.err)
		}
	}
	return nil
}

// wait returns when d has passed, or with ctx's error.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
