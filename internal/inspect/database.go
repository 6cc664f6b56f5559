package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// answerWait is how much longer than the statement_timeout an answer may take.
const answerWait = 5 * time.Second

// Database is what is read.
type Database struct {
	Pool *pgxpool.Pool
	// Schema holds the tables.
	Schema string
	// Timeout bounds each statement.
	Timeout time.Duration
}

// Table is the qualified name of a table, for SQL.
func (db *Database) Table(name string) string { return tableIn(db.Schema, name) }

// ReadOnly runs fn in a transaction that can change nothing, and whose statements neither run
// nor wait for long.
func (db *Database) ReadOnly(ctx context.Context, fn func(tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.Timeout+answerWait)
	defer cancel()
	options := pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.ReadCommitted}
	return pgx.BeginTxFunc(ctx, db.Pool, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", db.Timeout.Milliseconds())); err != nil {
			return err
		}
		return fn(tx)
	})
}

// IsMissing reports whether err says that a table or its schema is not there.
func IsMissing(err error) bool {
	const undefinedTable, undefinedSchema = "42P01", "3F000"
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (server.Code == undefinedTable || server.Code == undefinedSchema)
}

func tableIn(schema, name string) string { return pgx.Identifier{schema, name}.Sanitize() }
