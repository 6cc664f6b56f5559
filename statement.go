package dedup

import (
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"reflect"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/table"
)

// Statement is an effect that is one SQL statement and returns one row.
type Statement struct {
	// SQL is one SELECT, INSERT, UPDATE, DELETE, MERGE or VALUES, with or without a
	// WITH in front, that returns exactly one row: the call's result. So one that
	// writes has a RETURNING. Its columns need names that differ. It stands in a WITH
	// clause, where Postgres refuses to write to a table with a rule for that (0A000),
	// but for one unconditional DO INSTEAD of one statement: use Do for those.
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
// two, or one with Call.LookFirst.
//
// The result is the row that stmt returns, as a JSON object with the names of
// its columns: Postgres writes it (row_to_json), so that numbers keep all their
// digits, and R takes it from there as encoding/json does. R is a struct, a map,
// an any or a json.RawMessage. Unlike with Do, nobody has seen the result before
// it is committed: if it does not fit R, the answer of this and of every later
// call is an [InvalidError] with the stored text, and not another run.
//
// Everything else is as with Do, and both can serve calls of one tool. A
// duplicate, a twin in flight and every error of the statement make the server
// undo it, and log an error; what it means is then found out the way Do goes,
// which may run the statement once more.
//
// A record is looked for in front of the statement, in the same trip: a duplicate's
// statement does not run, unless it races with the first.
//
// Cancelling ctx while the statement is on its way leaves its outcome unknown,
// which is answered with ErrOutcomeUnknown: there is no COMMIT apart that could
// be waited for. The server refuses a statement that reaches it later than
// Options.CommitTimeout after it was sent; how long it may run only ctx bounds, so
// give ctx a deadline.
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
func DoStatement[R any](ctx context.Context, d *Deduper, call Call, stmt Statement) (result Result[R], err error) {
	ctx, c := startCall(ctx, d, "DoStatement", &call)
	defer c.span.abandon()
	if err = admitStatement[R](ctx, c, d, call, stmt); err == nil {
		err = c.do(ctx)
		result, err = answerStatement[R](c, err)
	}
	return result, c.end(&call, err)
}

// admitStatement checks what DoStatement and DoBatch are called with.
func admitStatement[R any](ctx context.Context, c *call, d *Deduper, call Call, stmt Statement) (err error) {
	if err := c.admit(ctx, d, call); err != nil {
		return err
	}
	if t := reflect.TypeFor[R](); !takesObject(t) {
		return invalid("R", "is %s, which takes no JSON object; use a struct with an exported field for each column", t)
	}
	c.stmt, err = d.texts.bind(ctx, stmt.SQL, stmt.Args, stmt.OnError)
	return err
}

// answerStatement is answer for results that Postgres wrote.
func answerStatement[R any](c *call, err error) (Result[R], error) {
	var value R
	var unfit error
	if err == nil && c.executed && c.rec.Outcome == table.Done {
		value, unfit = decodeStored[R](c.rec.Result)
	}
	result, err := answer(c, value, err)
	return result, cmp.Or(err, unfit)
}

// takesObject reports whether encoding/json can read an object into a t.
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
	case reflect.Struct:
		return canon.Encodes(t)
	default:
		return false
	}
}

// takesName reports whether encoding/json can make a map's key of a column's name.
func takesName(t reflect.Type) bool {
	return t.Kind() == reflect.String || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
