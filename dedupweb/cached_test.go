package dedupweb

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCached reads a value once in a while for any number of visitors, and never without one. An
// error is returned to its reader and not kept.
func TestCached(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		reads, failed := 0, errors.New("down")
		var fault error
		c := newCached(time.Minute, func(context.Context) (int, error) {
			reads++
			<-time.After(time.Second)
			return reads, fault
		})
		var all sync.WaitGroup
		look := func(want int) {
			for range 50 {
				all.Go(func() {
					got, err := c.latest(t.Context())
					require.NoError(t, err)
					require.Equal(t, want, got)
				})
			}
			all.Wait()
		}
		look(1)
		<-time.After(50 * time.Second)
		look(1)
		<-time.After(time.Hour)
		require.Equal(t, 1, reads)
		look(2)

		<-time.After(time.Minute)
		fault = failed
		_, err := c.latest(t.Context())
		require.ErrorIs(t, err, failed)
		fault = nil
		look(4)

		c.turn <- struct{}{} // another goroutine is reading
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.latest(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
