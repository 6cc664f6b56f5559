package dedup

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
)

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
			return "", byEffect(s.explain(err, tx.Conn().IsClosed()))
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
