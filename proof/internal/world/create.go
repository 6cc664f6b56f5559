// Package world is the application that recorded sessions are replayed in: its
// Postgres schema, its data, its tools, and what has changed since the start.
//
// Everything lives in the schema that search_path puts first. Any number of
// processes may run tools in one world at once.
package world

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed schema.sql
var schema string

// DB is a *pgx.Conn, a *pgxpool.Pool or a pgx.Tx.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Create makes the application's tables, empty, all or none. It fails where
// they exist.
func Create(ctx context.Context, db DB) error {
	// No arguments: the whole file goes as one message, which Postgres runs as
	// one transaction.
	if _, err := db.Exec(ctx, schema); err != nil {
		return fmt.Errorf("creating world: %w", err)
	}
	return nil
}
