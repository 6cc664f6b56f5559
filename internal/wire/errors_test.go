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

// TestIsRaised: only an error after which the server goes on proves that nothing was committed. The
// field that is never translated has the word.
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

// TestIsConnLost: an error that a server sent, or that a context made, says more than that a
// connection has ended.
func TestIsConnLost(t *testing.T) {
	t.Parallel()

	lost := fmt.Errorf("receive message failed: %w", io.ErrUnexpectedEOF)
	require.True(t, IsConnLost(lost))
	require.False(t, IsConnLost(&pgconn.PgError{Code: "57P01"}))
	require.False(t, IsConnLost(errors.Join(lost, &pgconn.PgError{Code: "57P01"})))
	require.False(t, IsConnLost(fmt.Errorf("%w: %w", lost, context.Canceled)))
}

// TestIsTransient: a fault of the server or the way to it may pass. What the statement itself is
// refused for does not.
func TestIsTransient(t *testing.T) {
	t.Parallel()

	for want, errs := range map[bool][]pgconn.PgError{
		true: {
			{Code: "40001"}, {Code: "40P01"}, {Code: "55P03"}, {Code: "25006"}, {Code: "57P01"}, {Code: "57P03"},
			{Code: "08006"}, {Code: "08006", Routine: "ReportConnectionError"}, {Code: "08P01"}, // of PgBouncer
			{Code: "53100", Routine: "mdextend"}, {Code: "53200"}, {Code: "53300", Routine: "InitProcess"},
			{Code: "0A000", Routine: "RevalidateCachedQuery"}, {Code: "XX000", File: "remote_commands.c"},
		},
		false: {
			{Code: "08P01", Routine: "pq_getmsgend"}, {Code: "08P01", Routine: "exec_bind_message"}, // a NUL in a text
			{Code: "53400", Routine: "FileWrite"}, {Code: "0A000"}, {Code: "XX000"}, {Code: "57014"},
			{Code: "23505"}, {Code: "22021"}, {Code: ""}, {Code: "2"},
		},
	} {
		for _, err := range errs {
			require.Equal(t, want, IsTransient(fmt.Errorf("wrapped: %w", &err)), "%s %s", err.Code, err.Routine)
		}
	}
	require.False(t, IsTransient(io.EOF))
}
