package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/inspect"
)

// A session is the connection through which the database is looked at.
type session struct {
	cli.Target
	config  *pgx.ConnConfig
	timeout time.Duration // of each statement
	overdue time.Duration // how long something may be due

	conn *pgx.Conn // nil before the first use
}

// connected returns the connection, or a new one if that has been closed.
func (s *session) connected(ctx context.Context) (*pgx.Conn, error) {
	if s.conn != nil && !s.conn.IsClosed() {
		return s.conn, nil
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	return conn, nil
}

// connect opens one more connection, as an application with the same URL does.
func (s *session) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, s.config.Copy())
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return conn, nil
}

func (s *session) close(ctx context.Context) {
	if s.conn != nil {
		_ = s.conn.Close(context.WithoutCancel(ctx))
	}
}

// readOnly runs fn in a transaction that can change nothing, and whose
// statements neither run nor wait for long.
func (s *session) readOnly(ctx context.Context, fn func(tx pgx.Tx) error) error {
	conn, err := s.connected(ctx)
	if err != nil {
		return err
	}
	return inspect.ReadOnly(ctx, conn, s.timeout, fn)
}

// read reads the one row of a query into the targets.
func (s *session) read(ctx context.Context, sql string, args []any, targets ...any) error {
	// Exec mode prepares nothing, so that it works behind every pooler.
	args = append([]any{pgx.QueryExecModeExec}, args...)
	return s.readOnly(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql, args...).Scan(targets...)
	})
}
