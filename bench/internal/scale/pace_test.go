package scale

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errCall = errors.New("the call failed")

// Calls fall due though none has been answered. The time for which one waits for a
// client is part of it, and what is due when the load stops is still called.
func TestPaceDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		const lasts = 50 * time.Millisecond
		release := make(chan struct{})
		all, err := pace{rate: 1000, clients: 1}.beside(t.Context(), func() error {
			defer close(release)
			return wait(t.Context(), lasts)
		}, func(context.Context, int) (int, error) { <-release; return 1, nil })
		require.NoError(t, err)
		require.Equal(t, 50, all.Calls)
		require.Equal(t, lasts, all.Elapsed)
		slices.Sort(all.Latencies)
		require.Zero(t, all.Latencies[0], "the last one")
		require.Equal(t, lasts-paceTick, all.Latencies[49], "the first one waited")
	})
}

func TestPaceBeside(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
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

		_, err = load.beside(t.Context(), func() error { return errCall }, func(context.Context, int) (int, error) { return 1, nil })
		require.ErrorIs(t, err, errCall, "of the work")
	})
}
