package dedup

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaiterSpent(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		max, waited time.Duration
		spent       bool
	}{
		{max: -1, spent: true},
		{max: 0, waited: time.Hour},
		{max: 10, waited: 9},
		{max: 10, waited: 10, spent: true},
		{max: 10, waited: 11, spent: true},
		{max: 1, waited: 0},
	} {
		p := waiter{max: c.max, waited: c.waited}
		require.Equal(t, c.spent, p.spent(), "%+v", c)
	}
}

// TestWaiterWait: the shortest of what bounds a wait ends it.
func TestWaiterWait(t *testing.T) {
	t.Parallel()

	done := make(chan struct{})
	close(done)
	never := make(chan struct{})
	for name, c := range map[string]struct {
		p     waiter
		done  <-chan struct{}
		limit time.Duration
	}{
		"Done":                   {done: done},
		"Limit":                  {done: never, limit: time.Millisecond},
		"LimitBeforeWaiter":      {p: waiter{max: time.Hour}, done: never, limit: time.Millisecond},
		"WaiterBeforeLimit":      {p: waiter{max: time.Millisecond}, done: never, limit: time.Hour},
		"WaiterAlone":            {p: waiter{max: time.Millisecond}, done: never},
		"WhatIsLeftOfWaiter":     {p: waiter{max: time.Hour, waited: time.Hour - time.Millisecond}, done: never},
		"LimitAfterLongWaiting":  {p: waiter{waited: time.Hour}, done: never, limit: time.Millisecond},
		"DoneThoughThereIsLimit": {p: waiter{max: time.Hour}, done: done, limit: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			before := c.p.waited
			require.NoError(t, c.p.wait(ctx, c.done, c.limit))
			require.Greater(t, c.p.waited, before, "what was waited counts")
		})
	}

	t.Run("Spent", func(t *testing.T) {
		t.Parallel()
		p := waiter{max: -1}
		require.Equal(t, ErrInFlight, p.wait(t.Context(), done, 0))
		require.Zero(t, p.waited)
	})
	t.Run("ContextEnds", func(t *testing.T) {
		t.Parallel()
		cause := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		err := new(waiter).wait(ctx, never, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, "waiting for a twin")
	})
}

// TestNextPause: pauses grow from 2 ms to 50 ms by a quarter each, and no wait is
// shorter than half of its pause or longer than it.
func TestNextPause(t *testing.T) {
	t.Parallel()

	var p waiter
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

// TestJitter: every pause that may be drawn is drawn, and no other.
func TestJitter(t *testing.T) {
	t.Parallel()

	half, full := map[time.Duration]bool{}, map[time.Duration]bool{}
	for range 1000 {
		half[jitter(4)] = true
		full[fullJitter(3)] = true
	}
	require.Equal(t, map[time.Duration]bool{2: true, 3: true, 4: true}, half)
	require.Equal(t, map[time.Duration]bool{0: true, 1: true, 2: true, 3: true}, full)
	require.Zero(t, fullJitter(0))
}

// TestContextErrors: a context's cause is found beside its error, and told once.
func TestContextErrors(t *testing.T) {
	t.Parallel()

	cause := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	plain, end := context.WithCancel(t.Context())
	end()

	require.Equal(t, context.Canceled, contextError(plain))
	require.EqualError(t, contextError(ctx), "context canceled: the user left")

	failed := errors.New("no seat left")
	err := withContext(ctx, failed)
	for _, in := range []error{failed, context.Canceled, cause} {
		require.ErrorIs(t, err, in)
	}
	told := errors.Join(context.Canceled, cause)
	require.Equal(t, told, withContext(ctx, told))
	require.ErrorIs(t, withContext(ctx, context.Canceled), cause, "the error alone does not tell the cause")
	require.ErrorIs(t, withContext(ctx, cause), context.Canceled, "nor the cause the error")
}
