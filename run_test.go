package dedup

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRetryBound: the longest pause doubles with each attempt, up to MaxDelay.
func TestRetryBound(t *testing.T) {
	t.Parallel()

	p := RetryPolicy{BaseDelay: 10 * time.Millisecond, MaxDelay: 70 * time.Millisecond}
	for attempt, want := range []time.Duration{10, 20, 40, 70, 70} {
		require.Equal(t, want*time.Millisecond, p.bound(attempt+1), "attempt %d", attempt+1)
	}
	require.Equal(t, p.MaxDelay, p.bound(1_000), "and does not overflow")
	p.MaxDelay = 40 * time.Millisecond
	require.Equal(t, p.MaxDelay, p.bound(3))
}

// TestEnded: whatever ends the attempts after a lost COMMIT, its outcome is open,
// and the fault that hid it is not told twice.
func TestEnded(t *testing.T) {
	t.Parallel()

	lost, later := errors.New("connection reset"), errors.New("no connection left")
	require.Equal(t, later, new(group).ended(later))

	g := &group{doubt: doubt{err: lost}, attempts: 3}
	require.Equal(t, &OutcomeUnknownError{Attempts: 3, Err: lost, Cause: later}, g.ended(later))
	require.Equal(t, &OutcomeUnknownError{Attempts: 3, Err: lost}, g.ended(lost))
}
