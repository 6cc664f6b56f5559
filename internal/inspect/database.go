package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
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
	D     *dedup.Deduper
	Tools *external.Tools // those of D
	// Timeout bounds each statement.
	Timeout time.Duration
}

// reader is a transaction that reads.
type reader struct {
	pgx.Tx
	ctx    context.Context //nolint:containedctx // it is that of the transaction, and goes with it
	schema string
}

// read runs fn in a transaction of [ReadOnly].
func (db *Database) read(ctx context.Context, fn func(r *reader) error) error {
	return ReadOnly(ctx, db.D.Pool(), db.Timeout, func(tx pgx.Tx) error {
		return fn(&reader{tx, ctx, db.D.Options().Schema})
	})
}

func (r *reader) table(name string) string { return pgx.Identifier{r.schema, name}.Sanitize() }

// collect reads the rows of a query.
func collect[T any](r *reader, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, _ := r.Query(r.ctx, sql, args...) // rows have its error
	return pgx.CollectRows(rows, scan)
}

// first reads the first row of a query. found is false where there is none.
func (r *reader) first(sql string, args []any, fields ...any) (found bool, err error) {
	err = r.QueryRow(r.ctx, sql, args...).Scan(fields...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// IsMissing reports whether err says that a table or its schema is not there.
func IsMissing(err error) bool {
	const undefinedTable, undefinedSchema = "42P01", "3F000"
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (server.Code == undefinedTable || server.Code == undefinedSchema)
}
