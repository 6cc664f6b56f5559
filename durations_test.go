package dedup

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzDurations adds and compares durations of any length, as far as they are not refused.
func FuzzDurations(f *testing.F) {
	edges := []int64{math.MinInt64, -1, 0, 1, int64(time.Millisecond), int64(time.Hour), int64(maxRetention), int64(maxRetention) + 1, math.MaxInt64 - 1, math.MaxInt64}
	for _, a := range edges {
		for _, b := range edges {
			f.Add(a, b, 3)
			f.Add(b, a, 1000)
		}
	}
	f.Fuzz(func(t *testing.T, a, b int64, attempt int) {
		first, second := time.Duration(a), time.Duration(b)
		opts, err := (&Options{MaxWait: first, CommitTimeout: second}).resolve()
		if err == nil {
			d := &Deduper{opts: opts}
			c := waited(min(first, longestWait), max(min(second, longestWait), 0))
			c.d = d
			limit := c.recordLimit()
			if first == 0 {
				require.Zero(t, limit)
			} else {
				require.Positive(t, limit)
			}
		}
		if opts, err = (&Options{Retry: RetryPolicy{BaseDelay: first, MaxDelay: second}}).resolve(); err == nil {
			pause := opts.Retry.longestPause(attempt)
			require.Positive(t, pause)
			require.LessOrEqual(t, pause, opts.Retry.MaxDelay)
			require.GreaterOrEqual(t, pause, opts.Retry.BaseDelay)
			require.LessOrEqual(t, opts.Retry.pause(attempt), pause)
		}
		if r, problem := (Retention{Result: first, Tombstone: second}).resolve(Retention{Result: defaultResult, Tombstone: defaultTombstone}); problem == "" {
			keep, forget := r.ages()
			require.Equal(t, r.Result < 0, keep == 0)
			require.GreaterOrEqual(t, forget, max(keep, minRetention))
			require.NotPanics(t, func() { (&lostCommit{}).provable(forget) })
		}
		if first >= 0 {
			require.LessOrEqual(t, jitter(first), first)
			require.GreaterOrEqual(t, jitter(first), first/2)
		}
	})
}
