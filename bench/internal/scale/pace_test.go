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

// Calls fall due though none has been answered.
func TestPaceDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()

	due, stop, done := make(chan time.Time, paceBacklog), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		pace{rate: 2000}.handOut(t.Context(), stop, due)
	}()
	last := <-due
	for range 20 {
		next := <-due
		require.False(t, next.Before(last))
		last = next
	}
	close(stop)
	<-done
}

func TestPaceCountsWaitingForAClient(t *testing.T) {
	t.Parallel()

	due := make(chan time.Time, 2)
	due <- time.Now().Add(-time.Hour)
	due <- time.Now()
	close(due)
	var heard ear
	take(t.Context(), due, func(context.Context) error { return nil }, heard.hear)
	all := heard.take()
	require.Len(t, all, 2)
	require.GreaterOrEqual(t, all[0].took, time.Hour)
	require.Less(t, all[1].took, time.Hour)
	require.Empty(t, heard.take(), "taken once")
}

// What is due when the load stops is still called.
func TestPaceFinishesWhatIsDue(t *testing.T) {
	t.Parallel()

	release, stop, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	started := make(chan struct{}, paceBacklog)
	var heard ear
	go func() {
		defer close(done)
		pace{rate: 1000, clients: 1}.run(t.Context(), stop, func(context.Context) error {
			started <- struct{}{}
			<-release
			return nil
		}, heard.hear)
	}()
	<-started
	close(stop)
	close(release)
	<-done
	require.Len(t, heard.take(), 1+len(started))
}

func TestPaceWhile(t *testing.T) {
	t.Parallel()

	load := pace{rate: 1000, clients: 2}
	called := make(chan struct{}, paceBacklog)
	call := func(context.Context) error { called <- struct{}{}; return nil }
	all, err := load.while(t.Context(), call, func() error {
		for range 10 {
			<-called
		}
		return nil
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 10)

	_, err = load.while(t.Context(), call, func() error { return errCall })
	require.ErrorIs(t, err, errCall, "of the work")

	failed := make(chan struct{}, paceBacklog)
	_, err = load.while(t.Context(), func(context.Context) error { failed <- struct{}{}; return errCall },
		func() error { <-failed; return nil })
	require.ErrorIs(t, err, errCall, "of a call")
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
