package table

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzLockTimeout: a limit of any length is one that lock_timeout takes, and no shorter where it
// can be.
func FuzzLockTimeout(f *testing.F) {
	for _, limit := range []time.Duration{
		math.MinInt64, -1, 0, 1, time.Millisecond, 101 * time.Millisecond, 1234 * time.Millisecond, time.Hour,
		math.MaxInt32 * time.Millisecond, math.MaxInt64/1000 + 1, math.MaxInt64/10 + 1, math.MaxInt64 - 1, math.MaxInt64,
	} {
		f.Add(int64(limit))
	}
	f.Fuzz(func(t *testing.T, n int64) {
		for _, limit := range []time.Duration{time.Duration(n), roundUp(time.Duration(n))} {
			ms, err := strconv.ParseInt(lockTimeout(limit), 10, 32)
			require.NoError(t, err)
			require.Positive(t, ms)
			require.GreaterOrEqual(t, ms, min(time.Duration(n).Milliseconds(), math.MaxInt32))
		}
	})
}
