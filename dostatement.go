package dedup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
)

// DoStatement is Do for an effect that is one SQL statement. The statement travels with the
// look-up, so a first call takes two round trips instead of three. A replay takes two, or one with
// Call.LookFirst, and leaves an error in the server's log. On servers other than plain PostgreSQL
// the statement takes a separate round trip.
//
// The result is the row that stmt returns, as pgx decodes it. R is a struct whose fields take the
// columns by name, as in [pgx.RowToStructByNameLax], a map[string]any, or a type that takes the
// only column. The result is recorded as in Do. A row that does not fit R rolls the statement back
// and is an [ErrInvalid].
//
// The same trip looks for a record before the statement: a repeat's statement does not run,
// unless it races with the first. Everything else is as in Do, errors included. Do and DoStatement
// can serve calls of one tool.
//
// Connections keep the statement prepared with its parameter types. After an ALTER TABLE … TYPE of
// a column that the statement writes, reset the pool.
func DoStatement[R any](ctx context.Context, d *Deduper, call Call, stmt Statement) (result Result[R], err error) {
	ctx, c := startCall(ctx, d, "DoStatement", &call)
	defer c.span.abandon()
	var value R
	if err = checkStatement(ctx, c, d, &call, &stmt, &value); err == nil {
		err = c.leadOrFollow(ctx)
		result, err = answer(c, value, err)
	}
	return result, c.end(err)
}

// checkStatement checks the input of DoStatement and DoBatch. The result goes to value.
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
			s.row, err = encodeAndDecode(d, got, value)
		}
		return err
	}
	c.effect = func(ctx context.Context, tx pgx.Tx) (string, error) {
		rows, _ := tx.Query(ctx, s.Query.Text, s.Args...) // its error is the rows' too
		if err := s.Read(rows); err != nil {
			return "", byEffect(s.applyOnError(err, tx.Conn().IsClosed()))
		}
		return s.row, nil
	}
	return nil
}

// rowTo decodes the row of a statement. It returns an ErrInvalid if R lacks a field for a column,
// or if two columns have one name.
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
		why := "" // a field that cannot take its column's value is named by Error
		if !errors.As(err, new(pgx.ScanArgError)) {
			why = ": " + err.Error()
		}
		err = invalidResult(err, "does not fit the row%s; columns take the fields of their names, or of their `db` tags (`json` tags do not count)", why)
	}
	return value, err
}

// checkNames refuses two columns with one name, because one of the values would be lost.
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
