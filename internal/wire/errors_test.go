package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// TestIsRaised: only an error after which the server goes on proves that
// nothing was committed. The field that is never translated has the word.
func TestIsRaised(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		unlocalized, severity string
		plain                 bool
	}{
		{"ERROR", "FEHLER", true},
		{"", "ERROR", true},
		{"FATAL", "ERROR", false},
		{"PANIC", "PANIC", false},
		{"", "FATAL", false},
	} {
		err := fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: c.unlocalized, Severity: c.severity})
		require.Equal(t, c.plain, IsRaised(err), "%+v", c)
	}
	require.False(t, IsRaised(io.EOF))
	require.True(t, IsUnsent(fmt.Errorf("wrapped: %w", pgx.ErrPreprocessingBatch{})))
	require.False(t, IsUnsent(io.EOF))
}

// TestIsConnLost: an error that a server sent, or that a context made, says
// more than that a connection has ended.
func TestIsConnLost(t *testing.T) {
	t.Parallel()

	lost := fmt.Errorf("receive message failed: %w", io.ErrUnexpectedEOF)
	require.True(t, IsConnLost(lost))
	require.False(t, IsConnLost(&pgconn.PgError{Code: "57P01"}))
	require.False(t, IsConnLost(errors.Join(lost, &pgconn.PgError{Code: "57P01"})))
	require.False(t, IsConnLost(fmt.Errorf("%w: %w", lost, context.Canceled)))
}
