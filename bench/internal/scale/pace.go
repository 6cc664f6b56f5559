package scale

import (
	"context"
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

// outcome is one call of a paced load. Its time counts from when the call was
// handed out, so that waiting for a client is part of it: a server that stalls
// cannot hide the calls that it kept from being made.
type outcome struct {
	at   time.Time // when it was handed out
	took time.Duration
	err  error
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

// run makes calls until ctx ends, and waits for all of them. The calls themselves are
// not cancelled.
func (p pace) run(ctx context.Context, call measure.Op, heard *ear) {
	free := make(chan struct{}, p.clients)
	var calls sync.WaitGroup
	defer calls.Wait()
	tick := time.NewTicker(paceTick)
	defer tick.Stop()
	start := time.Now()
	for handed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for now := time.Now(); handed < int(now.Sub(start).Seconds()*p.rate); handed++ {
			calls.Go(func() {
				free <- struct{}{}
				_, err := call(context.WithoutCancel(ctx), 0)
				<-free
				heard.hear(outcome{at: now, took: time.Since(now), err: err})
			})
		}
	}
}

// while runs a load of each of the calls for as long as work takes.
func (p pace) while(ctx context.Context, heard *ear, work func() error, calls ...measure.Op) error {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var loads sync.WaitGroup
	for _, call := range calls {
		loads.Go(func() { p.run(loading, call, heard) })
	}
	err := work()
	stop()
	loads.Wait()
	return err
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
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
