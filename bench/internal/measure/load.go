// Package measure is the arithmetic of the benchmark, free of any database: it
// loads an operation with clients, interleaves what is compared, and makes
// medians and percentiles of the samples.
package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
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
}

// A Sample is what one Load has measured.
type Sample struct {
	Calls     int
	Elapsed   time.Duration
	Processor time.Duration   // that this process used, 0 where the system does not say
	Latencies []time.Duration // one an operation, in no order
}

// And joins two samples that were measured one after the other.
func (s Sample) And(other Sample) Sample {
	return Sample{s.Calls + other.Calls, s.Elapsed + other.Elapsed, s.Processor + other.Processor, slices.Concat(s.Latencies, other.Latencies)}
}

// PerSecond is the rate of calls.
func (s Sample) PerSecond() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Calls) / s.Elapsed.Seconds()
}

// ProcessorPerCall is the time that this process used for a call.
func (s Sample) ProcessorPerCall() time.Duration { return s.Processor / time.Duration(max(s.Calls, 1)) }

// Run measures op. The first error of a client ends all of them and is returned.
func (l Load) Run(ctx context.Context, op Op) (Sample, error) {
	var begun atomic.Int64
	clients := make([]Sample, l.Clients)
	group, ctx := errgroup.WithContext(ctx)
	start, used := time.Now(), processorTime()
	for i := range clients {
		group.Go(func() error {
			for ctx.Err() == nil {
				began := time.Now()
				// Counted before it is made: with no Duration it is MinOps exactly.
				if begun.Add(1) > int64(l.MinOps) && began.Sub(start) >= l.Duration {
					return nil
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
	if err == nil && all.Calls == 0 {
		err = errors.New("measuring: no call was made; give clients, and a duration or a minimum of operations")
	}
	return all, err
}

// Compare makes of every op so many operations to warm it, and then measures each once,
// each a second time, and so on. What a machine does meanwhile, a noisy neighbour or a
// warmer cache, so falls on all and not on the last. Each round begins with another op,
// so that none always follows the same one. The samples are by op and round.
func (l Load) Compare(ctx context.Context, warm, rounds int, ops []Op) ([][]Sample, error) {
	samples := make([][]Sample, len(ops))
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
