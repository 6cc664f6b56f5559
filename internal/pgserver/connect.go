package pgserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// pollEvery is the pause between two attempts to connect to a server that
	// is starting.
	pollEvery = 10 * time.Millisecond

	// dialWait bounds one attempt.
	dialWait = 3 * time.Second

	// cannotConnectNow is the SQLSTATE of a server that is starting up.
	cannotConnectNow = "57P03"
)

// connect opens a connection. It waits for a server that answers that it is
// starting up, and gives up at once where nothing listens.
func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	for {
		conn, err := dial(ctx, dsn)
		var pgErr *pgconn.PgError
		if err == nil || !errors.As(err, &pgErr) || pgErr.Code != cannotConnectNow {
			return conn, err
		}
		if !pause(ctx, pollEvery) {
			return nil, fmt.Errorf("waiting for the server to start up: %w", err)
		}
	}
}

// dial makes one bounded attempt to connect.
func dial(ctx context.Context, dsn string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	return pgx.Connect(ctx, dsn)
}

// pause waits for d, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
