package dedup

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/sqllex"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Statement is an effect that is one SQL statement and returns one row.
type Statement struct {
	// SQL is one statement that returns exactly one row: the call's result. So one that
	// writes has a RETURNING. It is sent as it is.
	SQL string
	// Args are the values of its parameters $1, $2, …; or one [pgx.NamedArgs],
	// or another [pgx.QueryRewriter].
	Args []any
	// OnError is given the statement's error, when nothing that it did will be kept,
	// and returns the call's: wrap it in [Final] to have it recorded as the answer.
	// A statement that returned no row gives [pgx.ErrNoRows], one that returned
	// several [pgx.ErrTooManyRows]. It may be called more than once for one call, and
	// is not asked about transient faults, lost connections and ended contexts, nor
	// about a deferred constraint that fails at COMMIT: that is the call's error as it is.
	// Nil returns the error as it is.
	OnError func(err error) error
}

// SQL returns a Statement.
func SQL(sql string, args ...any) Statement { return Statement{SQL: sql, Args: args} }

// DoStatement is Do for an effect that is one SQL statement, which travels with the look-up: a
// first call takes two round trips in place of three. A replay takes two, or one with
// Call.LookFirst, and leaves an error in the server's log.
//
// The result is the row that stmt returns, as pgx reads it: R is a struct whose fields take the
// columns by name, as [pgx.RowToStructByNameLax] has it, a map[string]any, or what takes the one column. It is
// recorded as the result of Do is, and what does not fit R rolls the statement back.
//
// A record is looked for in front of the statement, in the same trip: a duplicate's statement
// does not run, unless it races with the first. Everything else is as with Do, and both can
// serve calls of one tool.
//
// Connections keep the statement prepared, with the types that its parameters had
// then. After an ALTER TABLE … TYPE of a column that it writes, reset the pool.
//
// On servers other than plain PostgreSQL the statement takes a round trip of its own. Errors are those of Do.
func DoStatement[R any](ctx context.Context, d *Deduper, call Call, stmt Statement) (result Result[R], err error) {
	ctx, c := startCall(ctx, d, "DoStatement", &call)
	defer c.span.abandon()
	var value R
	if err = checkStatement(ctx, c, d, &call, &stmt, &value); err == nil {
		err = c.do(ctx)
		result, err = answer(c, value, err)
	}
	return result, c.end(err)
}

// checkStatement checks what DoStatement and DoBatch are called with. The result goes to value.
func checkStatement[R any](ctx context.Context, c *call, d *Deduper, call *Call, stmt *Statement, value *R) (err error) {
	if err = c.check(ctx, d, call); err != nil {
		return err
	}
	if c.stmt, err = bind(ctx, stmt); err != nil {
		return err
	}
	s := &c.stmt
	s.Read = func(rows pgx.Rows) error {
		got, err := pgx.CollectExactlyOneRow(rows, rowTo[R])
		if err == nil {
			s.row, err = record(d, got, value)
		}
		return err
	}
	c.effect = func(ctx context.Context, tx pgx.Tx) (string, error) {
		rows, _ := tx.Query(ctx, s.Query.Text, s.Args...) // its error is the rows' too
		if err := s.Read(rows); err != nil {
			return "", byEffect(s.explain(err))
		}
		return s.row, nil
	}
	return nil
}

// rowTo reads the row of a statement. A column that R has no field for, or two columns of one name,
// are an ErrInvalid.
func rowTo[R any](row pgx.CollectableRow) (value R, err error) {
	t := reflect.TypeFor[R]()
	switch m, isMap := any(&value).(*map[string]any); {
	case isMap:
		if err = checkNames(row); err == nil {
			*m, err = pgx.RowToMap(row)
		}
	case t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || reflect.PointerTo(t).Implements(reflect.TypeFor[sql.Scanner]()):
		value, err = pgx.RowTo[R](row)
	default:
		if err = checkNames(row); err == nil {
			value, err = pgx.RowToStructByNameLax[R](row)
		}
	}
	if err != nil {
		err = invalidResult(err, "does not fit the row; columns take the fields of their names, or of their `db` tags (`json` tags do not count)")
	}
	return value, err
}

// checkNames refuses two columns of one name: one of the values would be lost.
func checkNames(row pgx.CollectableRow) error {
	columns := row.FieldDescriptions()
	for i, c := range columns {
		for _, before := range columns[:i] {
			if before.Name == c.Name {
				return fmt.Errorf("the row has two columns %q", c.Name)
			}
		}
	}
	return nil
}

// boundStatement is a Statement that is ready to be sent.
type boundStatement struct {
	table.Rider
	// row is the text to record of the row that it has returned.
	row     string
	onError func(error) error
}

// bind makes a statement ready to be sent, or returns an ErrInvalid.
func bind(ctx context.Context, stmt *Statement) (bound boundStatement, err error) {
	text, args := stmt.SQL, stmt.Args
	if len(args) > 0 {
		if rewriter, ok := args[0].(pgx.QueryRewriter); ok {
			if text, args, err = rewriter.RewriteQuery(ctx, nil, text, args[1:]); err != nil {
				return bound, &InvalidError{What: "call", Field: "Statement", Reason: "could not be rewritten", Err: err}
			}
		}
	}
	switch {
	case strings.IndexByte(text, 0) >= 0: // where the protocol would end the text
		return bound, invalid("Statement", "holds a zero byte")
	case len(sqllex.Split(text)) != 1:
		return bound, invalid("Statement", "must be one statement")
	case sqllex.IsTxControl(text):
		return bound, invalid("Statement", "ends the transaction, which belongs to dedup")
	}
	return boundStatement{Rider: table.Rider{Query: wire.NewQuery(text), Args: args}, onError: stmt.OnError}, nil
}

// explain returns the call's error for an error of the statement. OnError is not asked about
// transient faults, which another attempt may not meet.
func (s *boundStatement) explain(err error) error {
	if s.onError != nil && !wire.IsTransient(err) && !wire.IsConnLost(err) && !wire.IsContextError(err) {
		return cmp.Or(s.onError(err), err)
	}
	return err
}
