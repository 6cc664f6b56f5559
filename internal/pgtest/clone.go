package pgtest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/scratchdb"
)

// chooseStrategy returns how CREATE DATABASE is to copy the template. FILE_COPY takes less than
// half the time of the processor. But it waits for two checkpoints, which are slow on a disk that
// is really written: there the default is faster. PostgreSQL 14 and older know no other than
// FILE_COPY.
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

// execAlone runs a CREATE or DROP DATABASE.
func (c *cluster) execAlone(ctx context.Context, admin *pgxpool.Pool, statement string) error {
	c.copying.Lock()
	defer c.copying.Unlock()
	return scratchdb.Patiently(ctx, func() error {
		_, err := admin.Exec(ctx, statement)
		return err
	})
}
