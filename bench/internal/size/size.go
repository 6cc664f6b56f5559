// Package size measures what tables and indexes take on disk.
package size

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Relation is a table or an index, and the bytes that it takes. Only its main
// fork counts: the maps of free space and visibility take a few pages in any
// table, however small. No record of the benchmark is long enough for TOAST.
type Relation struct {
	Schema, Name string
	Bytes        int64
}

// Relations returns all of the database's tables and indexes but the system's own.
func Relations(ctx context.Context, pool *pgxpool.Pool) ([]Relation, error) {
	rows, err := pool.Query(ctx, `
		SELECT n.nspname, c.relname, pg_relation_size(c.oid)
		FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'i')
		AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`)
	if err != nil {
		return nil, fmt.Errorf("asking for the sizes of tables: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Relation])
	if err != nil {
		return nil, fmt.Errorf("asking for the sizes of tables: %w", err)
	}
	return all, nil
}
