package inspect

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/wire"
)

// AnswerWait is how much longer than the statement_timeout a reply may take: for the network, or
// for a pooler without a free server connection.
const AnswerWait = 5 * time.Second

// ReadOnly runs fn in a read-only transaction whose statements neither run nor wait for longer than
// timeout.
func ReadOnly(ctx context.Context, pool *pgxpool.Pool, timeout time.Duration, fn func(tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout+AnswerWait)
	defer cancel()
	// A role's default could make it serializable, which a standby refuses.
	options := pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.ReadCommitted}
	return wire.WithPoolUse(pool, pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error {
		// In some modes pgx reads times and intervals as text, and only in these styles.
		const styles = "SET LOCAL DateStyle = 'ISO'; SET LOCAL IntervalStyle = 'postgres'; "
		if _, err := tx.Exec(ctx, styles+fmt.Sprintf("SET LOCAL statement_timeout = %d", timeout.Milliseconds()), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		return fn(tx)
	}))
}

// Database reads the tables of a Deduper.
type Database struct {
	D     *dedup.Deduper
	Tools *external.Tools // must belong to D
	// Timeout bounds each statement.
	Timeout time.Duration
}

// reader is a read-only transaction.
type reader struct {
	pgx.Tx
	ctx    context.Context //nolint:containedctx // lives as long as the transaction
	schema string
}

// read runs fn in a transaction of [ReadOnly].
func (db *Database) read(ctx context.Context, fn func(r *reader) error) error {
	return ReadOnly(ctx, db.D.Pool(), db.Timeout, func(tx pgx.Tx) error {
		return fn(&reader{tx, ctx, db.D.Options().Schema})
	})
}

// query is a statement with its parameters. In sql, {dedup}, {effect}, {audit} and {stat} are the
// tables, and {due} is when a record is due.
type query struct {
	sql  string
	args pgx.NamedArgs
}

// text returns the statement for the tables of a schema.
func (q query) text(schema string) string {
	table := func(name string) string { return pgx.Identifier{schema, name}.Sanitize() }
	return strings.NewReplacer(
		"{dedup}", table("tool_dedup"), "{effect}", table("tool_effect"), "{audit}", table("tool_dedup_audit"), "{stat}", table("tool_dedup_stat"), "{due}", examiner.DueExpression,
	).Replace(q.sql)
}

var parameter = regexp.MustCompile(`@\w+`)

// where joins the conditions whose first parameter is not zero. The others are left out, because a
// condition that may be empty cannot use an index.
func where(args pgx.NamedArgs, conditions ...string) string {
	given := slices.DeleteFunc(conditions, func(condition string) bool {
		value := args[parameter.FindString(condition)[1:]]
		return value == nil || reflect.ValueOf(value).IsZero()
	})
	return strings.Join(append([]string{"true"}, given...), "\n   AND ")
}

// collect reads the rows of a query into the fields of T, by position.
func collect[T any](r *reader, q query) ([]T, error) {
	rows, _ := r.Query(r.ctx, q.text(r.schema), q.args) // rows have its error
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// first reads the first row of a query and reports whether there is one.
func (r *reader) first(q query, fields ...any) (found bool, err error) {
	err = r.QueryRow(r.ctx, q.text(r.schema), q.args).Scan(fields...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// IsMissing reports whether err is about a table or a schema that does not exist.
func IsMissing(err error) bool {
	const undefinedTable, undefinedSchema = "42P01", "3F000"
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (server.Code == undefinedTable || server.Code == undefinedSchema)
}
