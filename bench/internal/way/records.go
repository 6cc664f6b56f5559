package way

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/migrations"
)

// createRecords creates tool_dedup.
func createRecords(ctx context.Context, pool *pgxpool.Pool) error { return CreateRecords(ctx, pool) }

// CreateRecords creates tool_dedup in the first schema of the search path.
func CreateRecords(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}) error {
	sql, err := migrations.SQL()
	if err != nil {
		return err
	}
	if _, err := db.Exec(ctx, sql); err != nil {
		return fmt.Errorf("creating tool_dedup: %w", err)
	}
	return nil
}
