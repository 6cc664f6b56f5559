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

// AnswerWait is how much longer than the statement_timeout an answer may take: on the way, or in a
// pooler that has no server connection to give.
const AnswerWait = 5 * time.Second

// ReadOnly runs fn in a transaction that can change nothing, and whose statements neither run
// nor wait for longer than timeout.
func ReadOnly(ctx context.Context, db interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}, timeout time.Duration, fn func(tx pgx.Tx) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeout+AnswerWait)
	defer cancel()
	// A default of the role's could make a serializable one of it, which a standby refuses.
	options := pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.ReadCommitted}
	return pgx.BeginTxFunc(ctx, db, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", timeout.Milliseconds())); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Database is what is read.
type Database struct {
	Pool *pgxpool.Pool
	// Schema holds the tables.
	Schema string
	// Timeout bounds each statement.
	Timeout time.Duration
}

// ReadOnly is the function ReadOnly on the pool.
func (db *Database) ReadOnly(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return ReadOnly(ctx, db.Pool, db.Timeout, fn)
}

// IsMissing reports whether err says that a table or its schema is not there.
func IsMissing(err error) bool {
	const undefinedTable, undefinedSchema = "42P01", "3F000"
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (server.Code == undefinedTable || server.Code == undefinedSchema)
}

// collect reads the rows of a query.
func collect[T any](ctx context.Context, tx pgx.Tx, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, _ := tx.Query(ctx, sql, args...) // rows have its error
	return pgx.CollectRows(rows, scan)
}

func tableIn(schema, name string) string { return pgx.Identifier{schema, name}.Sanitize() }
