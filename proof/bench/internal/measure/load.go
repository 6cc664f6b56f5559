// Package measure loads an operation with clients, interleaves the operations that are compared,
// makes medians and percentiles of the samples, and writes them as tables. It knows no database.
package measure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// An Op makes one operation on behalf of one of the clients, which are numbered
// from 0, and returns how many calls that were: a batch is one operation of many.
type Op func(ctx context.Context, client int) (calls int, err error)

// A Load says how an operation is measured.
type Load struct {
	// Clients repeat the operation at the same time, each one after another.
	Clients int
	// Duration is how long they go on.
	Duration time.Duration
	// MinOps is how many operations all clients together make even if that
	// takes longer: a slow way would otherwise be judged by a handful.
	MinOps int
	// Rate is how many operations a second fall due in [Load.Beside].
	Rate float64
}

// A Sample is what one Load has measured.
type Sample struct {
	Calls     int
	Elapsed   time.Duration
	Processor time.Duration   // that this process used
	Latencies []time.Duration // one an operation, in no order
}

// PerSecond is the rate of calls.
func (s Sample) PerSecond() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Calls) / s.Elapsed.Seconds()
}

// ProcessorPerCall is the time that this process used for a call, in nanoseconds.
func (s Sample) ProcessorPerCall() float64 { return float64(s.Processor) / float64(max(s.Calls, 1)) }

// Run measures op. The first error of a client ends all of them and is returned.
func (l Load) Run(ctx context.Context, op Op) (Sample, error) {
	var begun atomic.Int64
	start := time.Now()
	all, err := l.clients(ctx, start, op, func(ctx context.Context) (began time.Time, goOn bool) {
		began = time.Now()
		// Counted before it is made: with no Duration it is MinOps exactly.
		return began, begun.Add(1) <= int64(l.MinOps) || began.Sub(start) < l.Duration
	})
	if err == nil && all.Calls == 0 {
		err = errors.New("measuring: no call was made; give clients, and a duration or a minimum of operations")
	}
	return all, err
}

// Beside measures the operations that fall due while work is done: Rate a second, also where those
// before are not done. The time of one counts from when it fell due, so that a server that stalls
// cannot hide the operations that it kept from being made.
func (l Load) Beside(ctx context.Context, work func() error, op Op) (Sample, error) {
	var begun atomic.Int64
	var ended time.Time // written before done is closed
	done := make(chan struct{})
	worked := make(chan error, 1)
	start := time.Now()
	go func() {
		err := work()
		ended = time.Now()
		close(done)
		worked <- err
	}()
	all, err := l.clients(ctx, start, op, func(ctx context.Context) (due time.Time, goOn bool) {
		due = start.Add(time.Duration(float64(begun.Add(1)) / l.Rate * float64(time.Second)))
		select {
		case <-time.After(time.Until(due)):
			return due, true
		case <-done:
			return due, !due.After(ended)
		case <-ctx.Done():
			return due, false
		}
	})
	err = errors.Join(<-worked, err)
	all.Elapsed = ended.Sub(start)
	return all, err
}

// clients repeats op. next waits until a client's next operation may begin; it says from when its
// time counts, and whether it is made at all. The sample's time counts from start.
func (l Load) clients(
	ctx context.Context, start time.Time, op Op, next func(context.Context) (began time.Time, goOn bool),
) (Sample, error) {
	clients := make([]Sample, l.Clients)
	group, ctx := errgroup.WithContext(ctx)
	used := processorTime()
	for i := range clients {
		group.Go(func() error {
			for ctx.Err() == nil {
				began, goOn := next(ctx)
				if !goOn {
					return ctx.Err()
				}
				calls, err := op(ctx, i)
				if err != nil {
					return fmt.Errorf("client %d: %w", i, err)
				}
				clients[i].Latencies = append(clients[i].Latencies, time.Since(began))
				clients[i].Calls += calls
			}
			return ctx.Err()
		})
	}
	err := group.Wait()
	all := Sample{Elapsed: time.Since(start), Processor: processorTime() - used}
	for _, s := range clients {
		all.Calls += s.Calls
		all.Latencies = append(all.Latencies, s.Latencies...)
	}
	return all, err
}

// Compare makes of every op so many operations to warm it, and then measures each once,
// each a second time, and so on. What a machine does meanwhile, a noisy neighbour or a
// warmer cache, so falls on all and not on the last. Each round begins with another op,
// so that none always follows the same one.
func (l Load) Compare(ctx context.Context, warm, rounds int, ops []Op) ([]Rounds, error) {
	samples := make([]Rounds, len(ops))
	for _, op := range ops {
		if _, err := (Load{Clients: l.Clients, MinOps: warm}).Run(ctx, op); err != nil {
			return nil, err
		}
	}
	for round := range rounds {
		for i := range ops {
			at := (round + i) % len(ops)
			sample, err := l.Run(ctx, ops[at])
			if err != nil {
				return nil, err
			}
			samples[at] = append(samples[at], sample)
		}
	}
	return samples, nil
}

// Wait returns when d has passed, or with ctx's error.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// processorTime is what this process has used, in user mode and in the kernel.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
