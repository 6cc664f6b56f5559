package runner

import (
	"context"
	"math/rand/v2"
	"time"
)

// Runner is what calls are made with. A nil *Runner and the zero Runner use the
// system's clock and report nothing. It holds nothing that changes, so any
// number of goroutines may use it.
type Runner struct {
	// Clock tells the time and waits. Nil: the system's. Policy.TryTimeout and the
	// deadlines of contexts are always the system's.
	Clock Clock
	// Rand draws from 0 to n-1, evenly; n is at least 1. It must be safe for
	// several goroutines. Nil: math/rand/v2.
	Rand func(n int64) int64
	// OnRetry is told, on the caller's goroutine, of every try that failed and is
	// to be followed by another, before the pause. It must not block.
	OnRetry func(ctx context.Context, event Event)
}

// Clock is the part of a clock that a Runner needs.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once d has passed, as time.After does.
	After(d time.Duration) <-chan time.Time
}

// Event is the data of Runner.OnRetry.
type Event struct {
	Tool string
	// KeyHash is [dedup.KeyHash] of the key; empty where the call has none.
	KeyHash string
	// Tries counts the tries so far.
	Tries int
	// Pause is how long the next try is waited for.
	Pause time.Duration
	// Err is what the last try failed with.
	Err error
}

// withDefaults returns the Runner with nothing left nil.
func (r *Runner) withDefaults() Runner {
	var full Runner
	if r != nil {
		full = *r
	}
	if full.Clock == nil {
		full.Clock = systemClock{}
	}
	if full.Rand == nil {
		full.Rand = rand.Int64N
	}
	if full.OnRetry == nil {
		full.OnRetry = func(context.Context, Event) {}
	}
	return full
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
