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
	// objectInUse is the SQLSTATE of CREATE DATABASE while someone is connected to its
	// source, and of DROP DATABASE while a node of a cluster connects again.
	objectInUse = "55006"

	// busyWait is how long is waited for such a one to leave, beyond the
	// five seconds that the server waits by itself.
	busyWait = 30 * time.Second

	// busyPause is the pause between two attempts.
	busyPause = 50 * time.Millisecond
)

// chooseStrategy returns how CREATE DATABASE is to copy the template. FILE_COPY takes less than
// half the time of the processor. But it waits for two checkpoints, which are slow on a disk that is
// really written: there the default is faster. PostgreSQL 14 and older know no other than FILE_COPY.
const chooseStrategy = `
SELECT CASE
	WHEN current_setting('server_version_num')::int >= 150000 AND NOT current_setting('fsync')::boolean
	THEN ' STRATEGY FILE_COPY'
	ELSE ''
END`

// clone creates a database as a copy of the template, one at a time: several at
// once, or beside a DROP DATABASE, wait for each other's checkpoints and take
// longer in all. BenchmarkClone compares the strategies.
func (c *cluster) clone(ctx context.Context, admin *pgxpool.Pool, name, template string) error {
	statement := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s%s",
		pgx.Identifier{name}.Sanitize(), pgx.Identifier{template}.Sanitize(), c.strategy)
	if err := c.execAlone(ctx, admin, statement); err != nil {
		return fmt.Errorf("creating database %s: %w", name, err)
	}
	return nil
}

// execAlone runs a CREATE or DROP DATABASE, again while somebody is connected.
func (c *cluster) execAlone(ctx context.Context, admin *pgxpool.Pool, statement string) error {
	c.copying.Lock()
	defer c.copying.Unlock()
	for deadline := time.Now().Add(busyWait); ; {
		_, err := admin.Exec(ctx, statement)
		var pgErr *pgconn.PgError
		if err == nil || !errors.As(err, &pgErr) || pgErr.Code != objectInUse || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(busyPause):
		}
	}
}
