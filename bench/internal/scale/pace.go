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

// beside runs a load of each of the calls while work is done, and returns those that
// fell due meanwhile, whenever they were answered. One that fails is an error in the
// end. The time of a call counts from when it was handed out, so that waiting for a
// client is part of it: a server that stalls cannot hide the calls that it kept from
// being made.
func (p pace) beside(ctx context.Context, work func() error, calls ...measure.Op) (all measure.Sample, err error) {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var failed error
	heard := func(took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		all.Calls, all.Latencies = all.Calls+1, append(all.Latencies, took)
		if err != nil && failed == nil {
			failed = fmt.Errorf("a call of the load: %w", err)
		}
	}
	var loads sync.WaitGroup
	start := time.Now()
	for _, call := range calls {
		loads.Go(func() { p.run(loading, call, heard) })
	}
	err = work()
	all.Elapsed = time.Since(start)
	stop()
	loads.Wait()
	return all, errors.Join(err, failed)
}

// run makes the calls that fall due until ctx ends, and waits for all of them, which are not cancelled.
func (p pace) run(ctx context.Context, call measure.Op, heard func(took time.Duration, err error)) {
	free := make(chan struct{}, p.clients)
	var calls sync.WaitGroup
	defer calls.Wait()
	tick := time.NewTicker(paceTick)
	defer tick.Stop()
	start := time.Now()
	for handed, ended := 0, false; !ended; {
		select {
		case <-ctx.Done(): // what fell due since the last tick is handed out
			ended = true
		case <-tick.C:
		}
		for now := time.Now(); handed < int(now.Sub(start).Seconds()*p.rate); handed++ {
			calls.Go(func() {
				free <- struct{}{}
				_, err := call(context.WithoutCancel(ctx), 0)
				<-free
				heard(time.Since(now), err)
			})
		}
	}
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
