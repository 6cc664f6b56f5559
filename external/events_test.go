package external_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestAppendEvents races writers on few streams with the recipe of Example_events, and
// sends every event three times.
func TestAppendEvents(t *testing.T) {
	t.Parallel()
	const writers, each, streams = 6, 40, 3
	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), eventTable)
	require.NoError(t, err)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	var running sync.WaitGroup
	var stale, replays atomic.Int64
	for w := range writers {
		running.Go(func() {
			for n := range each {
				stream, id := fmt.Sprint("s", n%streams), fmt.Sprintf("e-%d-%d", w, n)
				var first Appended
				for sent := 0; sent < 3; {
					var expected int64
					if err := pool.QueryRow(t.Context(), `SELECT coalesce(max(version), 0) FROM event WHERE stream = $1`, stream).Scan(&expected); err != nil {
						t.Error(err)
						return
					}
					result, err := appendEvent(t.Context(), d, id, stream, expected, id)
					switch {
					case err == errWrongVersion:
						stale.Add(1)
						continue
					case err != nil:
						t.Error(err)
						return
					case result.Replayed:
						replays.Add(1)
					}
					if sent++; sent == 1 {
						first = result.Value
					}
					if result.Value != first {
						t.Errorf("%s is at %v, and was at %v", id, result.Value, first)
					}
				}
			}
		})
	}
	running.Wait()
	var events, ids, gaps int
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT count(*), count(DISTINCT data),
		       (SELECT count(*) FROM (SELECT max(version) - count(*) AS missing FROM event GROUP BY stream) AS s WHERE missing <> 0)
		  FROM event`).Scan(&events, &ids, &gaps))
	require.Equal(t, writers*each, events)
	require.Equal(t, writers*each, ids)
	require.Zero(t, gaps)
	require.EqualValues(t, 2*writers*each, replays.Load())
	t.Logf("%d events, %d wrong versions, %d replays", events, stale.Load(), replays.Load())
}
