package dedup

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpent(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		max, waited time.Duration
		spent       bool
	}{
		{max: 0, waited: time.Hour},
		{max: 10, waited: 9},
		{max: 10, waited: 10, spent: true},
		{max: 10, waited: 11, spent: true},
		{max: 1, waited: 0},
	} {
		require.Equal(t, c.spent, waited(c.max, c.waited).spent(), "%+v", c)
	}
}

// TestSleepUntil: the shortest of what bounds a wait ends it.
func TestSleepUntil(t *testing.T) {
	t.Parallel()

	done := make(chan struct{})
	close(done)
	never := make(chan struct{})
	for name, c := range map[string]struct {
		max    time.Duration
		before time.Duration
		done   <-chan struct{}
		limit  time.Duration
	}{
		"Done":                   {done: done},
		"Limit":                  {done: never, limit: time.Millisecond},
		"LimitBeforeWaiter":      {max: time.Hour, done: never, limit: time.Millisecond},
		"WaiterBeforeLimit":      {max: time.Millisecond, done: never, limit: time.Hour},
		"WaiterAlone":            {max: time.Millisecond, done: never},
		"WhatIsLeftOfWaiter":     {max: time.Hour, before: time.Hour - time.Millisecond, done: never},
		"LimitAfterLongWaiting":  {before: time.Hour, done: never, limit: time.Millisecond},
		"DoneThoughThereIsLimit": {max: time.Hour, done: done, limit: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			p := waited(c.max, c.before)
			require.NoError(t, p.sleepUntil(ctx, c.done, c.limit))
			require.Greater(t, p.waits.all, c.before, "what was waited counts")
		})
	}

	t.Run("Spent", func(t *testing.T) {
		t.Parallel()
		p := waited(1, 1)
		require.Equal(t, ErrInFlight, p.sleepUntil(t.Context(), done, 0))
		require.EqualValues(t, 1, p.waits.all)
	})
	t.Run("ContextEnds", func(t *testing.T) {
		t.Parallel()
		cause := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		err := new(call).sleepUntil(ctx, never, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, "waiting for a twin")
	})
}

// waited is a call that may wait for max, and has waited for some of it.
func waited(max, before time.Duration) *call {
	c := &call{waits: waits{all: before}}
	c.maxWait = max
	return c
}

// TestNextPause: pauses grow from 2 ms to 50 ms by a quarter each, and no wait is shorter than half
// of its pause or longer than it.
func TestNextPause(t *testing.T) {
	t.Parallel()

	var p waits
	want := 2 * time.Millisecond
	for range 30 {
		drawn := p.nextPause()
		require.Equal(t, want, p.pause)
		require.GreaterOrEqual(t, drawn, want/2)
		require.LessOrEqual(t, drawn, want)
		want = min(time.Duration(float64(want)*1.25), 50*time.Millisecond)
	}
	require.Equal(t, 50*time.Millisecond, p.pause)
}

// A call that has waited longer than it may still has a limit.
func TestEdgeRecordLimit(t *testing.T) {
	t.Parallel()
	d := &Deduper{opts: Options{CommitTimeout: 10 * time.Second}}
	for _, over := range []time.Duration{0, 4 * time.Millisecond, 5 * time.Millisecond, 8 * time.Millisecond} {
		c := waited(100*time.Millisecond, 100*time.Millisecond+over)
		c.d = d
		if limit := c.recordLimit(); limit <= 0 {
			t.Errorf("over by %s: limit %s, which is none", over, limit)
		}
	}
}
