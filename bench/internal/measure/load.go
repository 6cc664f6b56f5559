package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
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
	Latencies []time.Duration // one an operation, in no order
}

// And joins two samples that were measured one after the other.
func (s Sample) And(other Sample) Sample {
	return Sample{
		Calls: s.Calls + other.Calls, Elapsed: s.Elapsed + other.Elapsed,
		Latencies: slices.Concat(s.Latencies, other.Latencies),
	}
}

// PerSecond is the rate of calls.
func (s Sample) PerSecond() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Calls) / s.Elapsed.Seconds()
}

// Run measures op. The first error of a client ends all of them and is returned.
func (l Load) Run(ctx context.Context, op Op) (Sample, error) {
	if l.Clients < 1 {
		return Sample{}, fmt.Errorf("measuring with %d clients: at least one is needed", l.Clients)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var begun atomic.Int64
	clients := make([]Sample, l.Clients)
	var group sync.WaitGroup
	start := time.Now()
	for i := range clients {
		group.Go(func() {
			if err := l.client(ctx, op, i, start, &begun, &clients[i]); err != nil {
				cancel(fmt.Errorf("client %d: %w", i, err))
			}
		})
	}
	group.Wait()

	all := Sample{Elapsed: time.Since(start)}
	for _, s := range clients {
		all.Calls += s.Calls
		all.Latencies = append(all.Latencies, s.Latencies...)
	}
	if err := context.Cause(ctx); err != nil {
		return all, err
	}
	if all.Calls == 0 {
		return all, errors.New("measuring: no call was made; give a longer duration or a minimum of operations")
	}
	return all, nil
}

func (l Load) client(ctx context.Context, op Op, client int, start time.Time, begun *atomic.Int64, s *Sample) error {
	for ctx.Err() == nil {
		began := time.Now()
		// Counted before it is made: with no Duration it is MinOps exactly.
		if begun.Add(1) > int64(l.MinOps) && began.Sub(start) >= l.Duration {
			return nil
		}
		calls, err := op(ctx, client)
		if err != nil {
			return err
		}
		s.Latencies = append(s.Latencies, time.Since(began))
		s.Calls += calls
	}
	return nil
}
