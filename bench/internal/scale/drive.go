package scale

import (
	"context"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

// warmCalls of a client prepare its statements.
const warmCalls = 5

// drive has clients make calls one after the other, as fast as they are
// answered, so many in all.
func drive(ctx context.Context, clients, calls int, call func(context.Context) error) (measure.Latency, error) {
	sample, err := measure.Load{Clients: clients, MinOps: calls}.Run(ctx, func(ctx context.Context, _ int) (int, error) {
		return 1, call(ctx)
	})
	return sample.Latency(), err
}

// ratio is a/b, and 0 where there is no b to compare with.
func ratio[N ~int64 | ~float64](a, b N) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
