package dedupweb

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The overview is read once in a tick, however many look, and not when nobody does.
func TestLiveReadsWhileSomebodyLooks(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		var reads int
		var broken atomic.Bool
		l := newLive(time.Second, func(context.Context) (*overview, error) {
			reads++
			if broken.Load() {
				return nil, errors.New("postgres://user@host is down")
			}
			<-time.After(time.Millisecond)
			return &overview{InFlight: reads}, nil
		})
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		pass(time.Minute)
		require.Zero(t, reads)

		first, leaveFirst := l.watch()
		second, leaveSecond := l.watch()
		pass(3500 * time.Millisecond)
		require.Equal(t, 4, reads)              // at once, and at three ticks
		require.Equal(t, 4, (<-first).InFlight) // the latest, of those that it has not taken
		require.Equal(t, 4, (<-second).InFlight)
		o, err := l.latest(t.Context(), l.every)
		require.NoError(t, err)
		require.Equal(t, 4, o.InFlight)

		leaveFirst()
		broken.Store(true)
		pass(time.Second)
		require.Equal(t, "The database cannot be reached.", (<-second).Problem)
		leaveSecond()
		pass(time.Minute)
		require.Equal(t, 5, reads)

		broken.Store(false)
		again, leave := l.watch()
		pass(1500 * time.Millisecond)
		require.Equal(t, 7, (<-again).InFlight)
		leave()
	})
}

// Streams that are shorter than a tick renew the overview all the same, once in a tick.
func TestLiveReadsForShortStreams(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		reads := 0
		l := newLive(time.Minute, func(context.Context) (*overview, error) {
			reads++
			return &overview{InFlight: reads}, nil
		})
		for n := range 5 {
			viewer, leave := l.watch()
			require.Equal(t, 1+n/2, (<-viewer).InFlight)
			<-time.After(streamed)
			leave()
			synctest.Wait()
		}
		require.Equal(t, 3, reads)
	})
}
