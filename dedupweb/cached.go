package dedupweb

import (
	"context"
	"time"
)

// cached has a value read once in a while for all who look at it, and not at all when nobody does.
type cached[T any] struct {
	read  func(context.Context) (T, error)
	every time.Duration

	// turn holds an element while somebody reads. It guards last and its time.
	turn chan struct{}
	last T
	at   time.Time
}

func newCached[T any](every time.Duration, read func(context.Context) (T, error)) *cached[T] {
	return &cached[T]{read: read, every: every, turn: make(chan struct{}, 1)}
}

// latest returns a value that was read within every.
func (c *cached[T]) latest(ctx context.Context) (value T, err error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return value, ctx.Err()
	}
	defer func() { <-c.turn }()
	if !c.at.IsZero() && time.Since(c.at) < c.every {
		return c.last, nil
	}
	began := time.Now()
	if value, err = c.read(ctx); err == nil {
		c.last, c.at = value, began
	}
	return value, err
}
