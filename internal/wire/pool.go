package wire

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Acquire takes a connection from the pool. It returns errors of [WithPoolUse].
func Acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	conn, err := pool.Acquire(ctx)
	return conn, WithPoolUse(pool, err)
}

// WithPoolUse adds the number of connections in use to the error of a pool, if a context ended
// while the pool waited for one. pgxpool returns the context's own error then, and pgconn never
// does.
func WithPoolUse(pool *pgxpool.Pool, err error) error {
	if err != context.Canceled && err != context.DeadlineExceeded {
		return err
	}
	stat := pool.Stat()
	text := fmt.Sprintf("waiting for a connection: %d of the pool's %d are in use", stat.AcquiredConns(), stat.MaxConns())
	if n := stat.ConstructingConns(); n > 0 {
		text += fmt.Sprintf(" and %d are being opened", n)
	}
	return fmt.Errorf("dedup: %s: %w", text, err)
}
