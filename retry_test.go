package dedup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRetryBound: the longest pause doubles with each attempt, up to MaxDelay.
func TestRetryBound(t *testing.T) {
	t.Parallel()

	p := RetryPolicy{BaseDelay: 10 * time.Millisecond, MaxDelay: 70 * time.Millisecond}
	for attempt, want := range []time.Duration{10, 20, 40, 70, 70} {
		require.Equal(t, want*time.Millisecond, p.longestPause(attempt+1), "attempt %d", attempt+1)
	}
	require.Equal(t, p.MaxDelay, p.longestPause(1_000), "and does not overflow")
	p.MaxDelay = 40 * time.Millisecond
	require.Equal(t, p.MaxDelay, p.longestPause(3))
}

// TestJitter: every pause that may be drawn is drawn, and no other.
func TestJitter(t *testing.T) {
	t.Parallel()

	half, full := map[time.Duration]bool{}, map[time.Duration]bool{}
	for range 1000 {
		half[jitter(4)] = true
		full[RetryPolicy{BaseDelay: 3, MaxDelay: 3}.pause(1)] = true
	}
	require.Equal(t, map[time.Duration]bool{2: true, 3: true, 4: true}, half)
	require.Equal(t, map[time.Duration]bool{0: true, 1: true, 2: true, 3: true}, full)
}
