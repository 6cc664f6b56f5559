package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// The naive wrapper makes as many attempts as dedup does by default.
const (
	naiveAttempts = 12
	naivePause    = 10 * time.Millisecond
)

// naive executes a write as an ordinary wrapper does: a transaction, and after
// any error another one, until there is an answer.
func (e *executor) naive(ctx context.Context, run runFunc, _ Delivery) (answer Answer, err error) {
	for range naiveAttempts {
		if answer, err = e.plain(ctx, run); err == nil {
			return answer, nil
		}
		timer := time.NewTimer(rand.N(naivePause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Answer{}, ctx.Err()
		}
	}
	return Answer{}, fmt.Errorf("gave up after %d attempts: %w", naiveAttempts, err)
}
