package scale

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errCall = errors.New("the call failed")

// Calls fall due though none has been answered. The time for which one waits for a
// client is part of it, and what is due when the load stops is still called.
func TestPaceDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()

	called, release := make(chan struct{}, 1<<16), make(chan struct{})
	all, err := pace{rate: 1000, clients: 1}.beside(t.Context(), func() error {
		defer close(release)
		<-called // and those behind it wait for it
		return wait(t.Context(), 50*time.Millisecond)
	}, func(context.Context, int) (int, error) { called <- struct{}{}; <-release; return 1, nil })
	require.NoError(t, err)
	require.Greater(t, all.Calls, 10)
	l := all.Latency()
	require.Greater(t, l.P99, 30*time.Millisecond, "the first ones waited")
	require.Less(t, l.P50, l.P99, "and the later ones less")
	require.GreaterOrEqual(t, all.Elapsed, 50*time.Millisecond)
}

func TestPaceBeside(t *testing.T) {
	t.Parallel()

	load := pace{rate: 1000, clients: 2}
	called := make(chan struct{}, 1<<16)
	all, err := load.beside(t.Context(), func() error {
		for range 10 {
			<-called
		}
		return nil
	}, func(context.Context, int) (int, error) { called <- struct{}{}; return 1, errCall })
	require.ErrorIs(t, err, errCall, "of a call")
	require.GreaterOrEqual(t, all.Calls, 10)

	_, err = load.beside(t.Context(), func() error { return errCall })
	require.ErrorIs(t, err, errCall, "of the work")
}
