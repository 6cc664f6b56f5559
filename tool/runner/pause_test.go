package runner

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"
)

// Every pause lies between Retry-After and Retry-After plus the bound, or plus half of the time to
// the deadline. The bound never shrinks.
func TestPauseBounds(t *testing.T) {
	t.Parallel()
	property := func(first uint64, tries uint8, after, behind uint32, seed uint64) bool {
		c := state{Call: Call{Pause: time.Duration(first>>1) + 1}, tries: int(tries) + 1}
		random := rand.New(rand.NewPCG(seed, 1))
		bound, low := c.bound(), time.Duration(after)
		left := low + time.Duration(behind) + 1
		high := low + min(bound, (left-low)/2)
		drawn := pause(bound, low, left, random.Int64N)
		c.tries++
		return drawn >= low && drawn <= high && drawn < left && c.bound() >= bound && bound >= c.Pause && bound <= max(c.Pause, time.Minute) &&
			pause(bound, low, left, func(int64) int64 { return 0 }) == low &&
			pause(bound, low, left, func(n int64) int64 { return n - 1 }) == high
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 20_000}))
	const forever = time.Duration(math.MaxInt64)
	require.Equal(t, forever, pause(time.Second, forever, forever, rand.Int64N))
	require.Equal(t, 2*time.Second, pause(2*time.Second, -time.Hour, forever, func(n int64) int64 { return n - 1 }))
}

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const longest = time.Duration(1<<63 - 1)
	for value, want := range map[string]time.Duration{
		"0":                                0,
		" 7\t":                             7 * time.Second,
		"007":                              7 * time.Second,
		"9223372036":                       9223372036 * time.Second,
		"9223372037":                       longest,
		"99999999999999999999999999999":    longest,
		"Sat, 21 Nov 2026 12:00:09 GMT":    9 * time.Second,
		"Sat, 21 Nov 2026 11:59:00 GMT":    0,
		"Saturday, 21-Nov-26 12:00:09 GMT": 9 * time.Second, // RFC 850
		"Sat Nov 21 12:00:09 2026":         9 * time.Second, // asctime
	} {
		wait, ok := parseRetryAfter(value, now)
		require.True(t, ok, value)
		require.Equal(t, want, wait, value)
	}
	for _, value := range []string{"", " ", "-1", "+1", "1.5", "1s", "1, 2", "１", "Sat, 21 Nov 2026"} {
		_, ok := parseRetryAfter(value, now)
		require.False(t, ok, value)
	}
}
