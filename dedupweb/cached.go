package dedupweb

import (
	"context"
	"time"
)

// cached shares a value among all visitors. It is read at most once in a while, and only if a
// visitor asks.
type cached[T any] struct {
	read  func(context.Context) (T, error)
	every time.Duration

	// turn holds an element while a goroutine reads. It guards last and at.
	turn chan struct{}
	last T
	at   time.Time
}

func newCached[T any](every time.Duration, read func(context.Context) (T, error)) *cached[T] {
	return &cached[T]{read: read, every: every, turn: make(chan struct{}, 1)}
}

// latest returns a value that is not older than every.
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
