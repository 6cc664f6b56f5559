package pgtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// objectInUse is the SQLSTATE of CREATE DATABASE while someone is
	// connected to its source.
	objectInUse = "55006"

	// busyWait is how long a clone waits for such a one to leave, beyond the
	// five seconds that the server waits by itself.
	busyWait = 30 * time.Second

	// busyPause is the pause between two attempts.
	busyPause = 50 * time.Millisecond
)

// clone creates a database as a copy of the template, one at a time: several at
// once, or beside a DROP DATABASE, wait for each other's checkpoints and take
// longer in all. It leaves the strategy to the server: data in memory
// is copied in under ten milliseconds by either, and on disk the default since
// version 15, WAL_LOG, spares the checkpoints of FILE_COPY; see BenchmarkClone.
func (c *cluster) clone(ctx context.Context, admin *pgxpool.Pool, name, template string) error {
	c.copying.Lock()
	defer c.copying.Unlock()

	statement := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s",
		pgx.Identifier{name}.Sanitize(), pgx.Identifier{template}.Sanitize())
	for deadline := time.Now().Add(busyWait); ; {
		_, err := admin.Exec(ctx, statement)
		if err == nil {
			return nil
		}
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != objectInUse || time.Now().After(deadline) {
			return fmt.Errorf("creating database %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("creating database %s: %w", name, errors.Join(ctx.Err(), err))
		case <-time.After(busyPause):
		}
	}
}
