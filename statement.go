package dedup

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
)

// Statement is an effect that is one SQL statement and returns one row.
type Statement struct {
	// SQL is one SELECT, INSERT, UPDATE, DELETE, MERGE or VALUES, with or without a
	// WITH in front, that returns exactly one row: the call's result. Its columns
	// need names that differ. It stands in a WITH clause, where Postgres refuses
	// to write to a table with a rule for that (0A000), but for one unconditional DO
	// INSTEAD of one statement: use Do for those.
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

// DoStatement is Do for an effect that is one SQL statement. Effect and record
// go to the server together, as one statement and in one round trip, which is
// faster than the transaction that the effect alone would need. A replay takes
// two, or one with Call.LookFirst and, mostly, where DoStatement, DoBatch or
// DoTogether of d have met the call lately.
//
// The result is the row that stmt returns, as a JSON object with the names of
// its columns: Postgres writes it (row_to_json), so that numbers keep all their
// digits, and R takes it from there as encoding/json does. R is a struct, a map,
// an any or a json.RawMessage. Unlike with Do, nobody has seen the result before
// it is committed: if it does not fit R, the answer of this and of every later
// call is a *ResultError with the stored text, and not another run.
//
// Everything else is as with Do, and both can serve calls of one tool. A
// duplicate, a twin in flight and every error of the statement make the server
// undo it, and log an error; what it means is then found out the way Do goes,
// which may run the statement once more.
//
// A record is looked for in front of the statement, in the same trip, until a
// hundred calls in a row were first ones. Then, until the next replay, a statement
// that took less than 20 ms the last time is run at once, and the primary key finds
// the replay: all that the statement did is undone. That leaves dead rows, gaps in
// sequences and a line in the server's log that names scope, tool and key, and it
// waits for the locks that the statement waits for. Calls with a MaxWait are always
// looked up. Set Call.LookFirst, or a MaxWait, where a statement must not run in vain.
//
// Cancelling ctx while the statement is on its way leaves its outcome unknown,
// which is answered with ErrOutcomeUnknown: there is no COMMIT apart that could
// be waited for. Nothing but ctx bounds how long it may be on its way, so give ctx
// a deadline.
//
// Connections keep the statement prepared, with the types that its parameters had
// then. After an ALTER TABLE … TYPE of a column that it writes, reset the pool.
//
// One statement runs at the isolation level that is the connection's default, and
// in the transaction of Do at that of the Options.
//
// Where one statement cannot do both ([Options.SeparateStatements]; on servers
// that are no plain PostgreSQL, with ClaimFirst, and at stricter isolation levels
// than READ COMMITTED), they go as two in the transaction of Do, with the same
// answers. Errors are those of Do.
func DoStatement[R any](ctx context.Context, d *Deduper, call Call, stmt Statement) (Result[R], error) {
	c, err := admitStatement[R](ctx, d, call, stmt)
	if err != nil {
		return Result[R]{}, err
	}
	s, err := c.do(ctx)
	return answerStatement[R](ctx, d, c.req, s, err)
}

// admitStatement checks what DoStatement and its kin are called with.
func admitStatement[R any](ctx context.Context, d *Deduper, call Call, stmt Statement) (*doCall, error) {
	c, err := d.admit(ctx, call, false)
	if err != nil {
		return nil, err
	}
	if err := checkRow[R](); err != nil {
		return nil, err
	}
	sql, err := d.texts.of(ctx, stmt)
	if err != nil {
		return nil, err
	}
	c.sql = sql
	c.work = sql.apart(d.opts.MaxResultBytes)
	return c, nil
}

// answerStatement is answer for results that Postgres wrote.
func answerStatement[R any](ctx context.Context, d *Deduper, req *request, s settled, err error) (Result[R], error) {
	switch {
	case err == nil:
		d.foresight.meet(req.lock, s.executed || s.recovered)
	case errors.Is(err, ErrOutcomeUnknown), errors.Is(err, ErrInFlight):
		d.foresight.meet(req.lock, false)
	}
	var value R
	var unfit error
	if err == nil && s.executed && s.rec.outcome == outcomeDone {
		value, unfit = decodeStored[R](s.rec.result)
	}
	result, err := answer(ctx, d, req, s, value, err)
	return result, orElse(err, unfit)
}

// checkRow checks that an R can take a row.
func checkRow[R any]() error {
	if t := reflect.TypeFor[R](); !takesObject(t) {
		return &InvalidCallError{Field: "R", Reason: fmt.Sprintf("is %s, which takes no JSON object; use a struct with a field for each column", t)}
	}
	return nil
}

// takesObject tells whether encoding/json can read an object into a t.
func takesObject(t reflect.Type) bool {
	switch p := reflect.PointerTo(t); {
	case p.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return true
	case p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return false // which takes a string and nothing else
	}
	switch t.Kind() {
	case reflect.Pointer:
		return takesObject(t.Elem())
	case reflect.Map:
		return takesName(t.Key())
	case reflect.Interface:
		return t.NumMethod() == 0
	default:
		return t.Kind() == reflect.Struct
	}
}

// takesName tells whether encoding/json can make a map's key of a column's name.
func takesName(t reflect.Type) bool {
	return t.Kind() == reflect.String || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// boundStatement is a Statement that is ready to be sent.
type boundStatement struct {
	*statementText
	args    []any
	onError func(error) error
}

// apart makes of the statement the work of an attempt in Do's transaction.
func (s *boundStatement) apart(maxResult int) work {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		var rows int64
		var row *string
		err := tx.QueryRow(ctx, s.effect.text, s.args...).Scan(&rows, &row)
		if err = orElse(err, oneRow(rows)); err != nil {
			return "", s.explain(err)
		}
		return *row, checkStorable([]byte(*row), maxResult)
	}
}

// oneRow is the error of a statement that returned so many rows.
func oneRow(rows int64) error {
	switch rows {
	case 0:
		return pgx.ErrNoRows
	case 1:
		return nil
	default:
		return pgx.ErrTooManyRows
	}
}

// explain makes of the statement's error the call's. What another attempt may not
// meet is nobody's answer, and OnError is not asked.
func (s *boundStatement) explain(err error) error {
	if s.onError != nil && !IsTransient(err) && !isConnectionLost(err) && !isContextError(err) {
		return orElse(s.onError(err), err)
	}
	return err
}
