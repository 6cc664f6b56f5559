package scale

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

var errCall = errors.New("the call failed")

// Calls fall due though none has been answered. The time for which one waits for a
// client is part of it, and what is due when the load stops is still called.
func TestPaceDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()

	var heard ear
	var begun time.Time
	release := make(chan struct{})
	err := pace{rate: 1000, clients: 1}.while(t.Context(), &heard, func() error {
		begun = time.Now()
		defer close(release)
		return wait(t.Context(), 50*time.Millisecond)
	}, func(context.Context, int) (int, error) { <-release; return 1, nil })
	require.NoError(t, err)
	released := begun.Add(50 * time.Millisecond)
	all := heard.take()
	require.Greater(t, len(all), 10)
	for _, o := range all {
		require.GreaterOrEqual(t, o.took, released.Sub(o.at))
	}
	require.Empty(t, heard.take(), "taken once")
}

func TestPaceWhile(t *testing.T) {
	t.Parallel()

	load := pace{rate: 1000, clients: 2}
	called := make(chan struct{}, 1<<16)
	var heard ear
	err := load.while(t.Context(), &heard, func() error {
		for range 10 {
			<-called
		}
		return errCall
	}, func(context.Context, int) (int, error) { called <- struct{}{}; return 1, errCall })
	require.ErrorIs(t, err, errCall, "of the work")
	all := heard.take()
	require.GreaterOrEqual(t, len(all), 10)
	require.ErrorIs(t, firstError(all), errCall, "of a call")
	require.NoError(t, firstError(nil))
}

// A call belongs to the time in which it fell due, however short that is.
func TestBetween(t *testing.T) {
	t.Parallel()

	start := time.Now()
	var all []outcome
	for i := range 10 {
		all = append(all, outcome{at: start.Add(time.Duration(i) * 100 * time.Millisecond), took: time.Duration(10 - i)})
	}
	s := between(all, start.Add(200*time.Millisecond), start.Add(700*time.Millisecond))
	require.Equal(t, measure.Latency{Calls: 5, P50: 6, P99: 8, PerSecond: 10}, s.Latency())
	require.Zero(t, between(nil, start, start.Add(time.Second)).Calls)
}
