package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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
	require.Equal(t, later, new(doCall).ended(later))

	c := &doCall{doubt: doubt{err: lost}}
	c.s.attempts = 3
	require.Equal(t, &OutcomeUnknownError{Attempts: 3, Err: lost, Cause: later}, c.ended(later))
	require.Equal(t, &OutcomeUnknownError{Attempts: 3, Err: lost}, c.ended(lost))
}

// TestIsConnectionLost: an error that a server sent, or that a context made, says
// more than that a connection has ended.
func TestIsConnectionLost(t *testing.T) {
	t.Parallel()

	lost := fmt.Errorf("receive message failed: %w", io.ErrUnexpectedEOF)
	require.True(t, isConnectionLost(lost))
	require.False(t, isConnectionLost(&pgconn.PgError{Code: "57P01"}))
	require.False(t, isConnectionLost(errors.Join(lost, &pgconn.PgError{Code: "57P01"})))
	require.False(t, isConnectionLost(fmt.Errorf("%w: %w", lost, context.Canceled)))
}
