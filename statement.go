package dedup

import (
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
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
	ctx, span := d.startCall(ctx, "DoStatement", &call)
	defer span.abandon()
	s, err := admitStatement[R](ctx, d, "DoStatement", call, stmt)
	if err == nil {
		err = s.do(ctx)
		result, err = answerStatement[R](&s.call, err)
	}
	return result, s.end(span, &call, err)
}

// admitStatement checks what DoStatement and its kin are called with.
func admitStatement[R any](ctx context.Context, d *Deduper, function string, call Call, stmt Statement) (*solo, error) {
	s, err := d.admit(ctx, function, call, false)
	if err != nil {
		return nil, err
	}
	if err := checkRow[R](); err != nil {
		return nil, err
	}
	s.call.stmt, err = d.texts.of(ctx, stmt)
	return s, err
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

// checkRow checks that an R can take a row.
func checkRow[R any]() error {
	if t := reflect.TypeFor[R](); !takesObject(t) {
		return invalid("R", "is %s, which takes no JSON object; use a struct with an exported field for each column", t)
	}
	return nil
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

// boundStatement is a Statement that is ready to be sent.
type boundStatement struct {
	*statementText
	args    []any
	onError func(error) error
}

// explain makes of the statement's error the call's. What another attempt may not
// meet is nobody's answer, and OnError is not asked.
func (s *boundStatement) explain(err error) error {
	if s.onError != nil && !wire.IsTransient(err) && !wire.IsConnLost(err) && !wire.IsContextError(err) {
		return cmp.Or(s.onError(err), err)
	}
	return err
}

// strayTime is more than a statement may be on its way to the server after its
// connection broke: kernels stop sending it again after a quarter of an hour.
const strayTime = time.Hour

// combines reports whether this attempt sends effect and record as one statement, for each
// call. Only a call's first does, and only to find out whether all goes well. Whatever
// else there is to know, what an error means above all, is found out by another attempt
// that sends them separately.
//
// A statement that is its own transaction may arrive late. Where its record is remembered
// for a shorter time than that, it could arrive when the record of a later attempt is
// forgotten, and run once more. A COMMIT cannot: its transaction holds the identity until
// it comes. Nor does a call with a lost COMMIT: whether it may run again is found out
// behind its lock.
func (g *group) combines(conn *pgx.Conn, calls []*call) bool {
	if g.together != nil || g.doubt.err != nil || !g.d.canCombine(conn) {
		return false
	}
	return !slices.ContainsFunc(calls, (*call).apart)
}

// apart reports whether effect and record of a call cannot be one statement.
func (c *call) apart() bool { return c.stmt == nil || c.combinedFailed || c.Forget < strayTime }

// canCombine reports whether effect and record can be one statement on conn.
func (d *Deduper) canCombine(conn *pgx.Conn) bool {
	return d.combines && d.plain.Load() &&
		// Else a backslash may hide where a quote ends, and so a parameter.
		conn.PgConn().ParameterStatus("standard_conforming_strings") != "off"
}

// attemptCombined sends effect and record of each call as one statement, all of them in
// one round trip and one transaction.
func (g *group) attemptCombined(ctx context.Context, conn *pgx.Conn, calls []*call) verdict {
	v := verdict{calls: calls}
	end := func(state state, bad *call, err error) verdict {
		if bad == nil && len(calls) == 1 {
			bad = calls[0]
		}
		v.state, v.bad, v.err = state, bad, err
		if bad != nil {
			bad.combinedFailed = true // the next attempt finds out why
		}
		return v
	}
	if ctx.Err() != nil {
		return end(failed, nil, fmt.Errorf("dedup: before the statement: %w", contextError(ctx)))
	}
	on := wire.On(conn)
	p, bad, err := g.queueCombined(ctx, on, calls, &v.until)
	if err != nil { // nothing was sent
		wire.DropUnusable(ctx, conn, err)
		return end(undone, bad, err)
	}
	results := p.Send(ctx)
	bad, err = g.readCombined(results, calls)
	before := err != nil
	err = results.Close(err) // reads to the end, which is where the server has committed
	switch wire.OutcomeOfStatement(conn.PgConn(), err, before) {
	case wire.Committed:
		if err := wire.CheckSession(conn.PgConn()); err != nil { // a statement's doing: the rows came in that encoding
			return end(unknown, nil, err)
		}
		g.d.clock.seen(calls[len(calls)-1].written.SeenAt)
		return end(committed, nil, nil)
	case wire.Unknown:
		return end(unknown, nil, err)
	}
	if wire.IsUnsent(err) && len(calls) > 1 {
		bad, v.unplaced = nil, true
	}
	if bad != nil && table.MayBeStale(err) {
		on.Stale(bad.combined(calls))
	}
	wire.DropUnusable(ctx, conn, err)
	return end(undone, bad, err)
}

// combined is the text that a call's statement is combined in, alone or among others.
func (c *call) combined(calls []*call) wire.Query {
	if len(calls) > 1 {
		return c.stmt.among
	}
	return c.stmt.alone
}

// queueCombined queues the statements of the calls, and sets the time after which the
// server refuses them. The call that it returns with an error is the one whose text or
// arguments the server or pgx refuses.
func (g *group) queueCombined(ctx context.Context, on *wire.Conn, calls []*call, latest *time.Time) (*wire.Pipeline, *call, error) {
	if len(calls) == 1 {
		c := calls[0]
		if err := on.Prepare(ctx, c.stmt.alone); err != nil {
			return nil, c, err
		}
		*latest = g.d.clock.in(g.d.opts.CommitTimeout)
		p := on.CallersPipeline()
		return p, c, table.QueueCombined(p, c.stmt.alone, c.stmt.args, &c.Entry, *latest, c.waiter.inPostgres())
	}
	queries := []wire.Query{g.d.table.Arrival}
	for _, c := range calls {
		queries = append(queries, c.stmt.among)
	}
	if err := on.Prepare(ctx, wire.Distinct(queries)...); err != nil {
		bad := slices.IndexFunc(calls, func(c *call) bool { return !on.Knows(c.stmt.among) })
		if bad < 0 || !wire.IsRaised(err) {
			return nil, nil, err
		}
		return nil, calls[bad], err
	}
	*latest = g.d.clock.in(g.d.opts.CommitTimeout)
	p := on.CallersPipeline()
	g.d.table.QueueArrival(p, entries(calls), *latest)
	for _, c := range calls {
		if err := table.QueueCombined(p, c.stmt.among, c.stmt.args, &c.Entry, *latest, c.waiter.inPostgres()); err != nil {
			on.Stale(c.stmt.among)
			return nil, c, err
		}
	}
	return p, nil, nil
}

// readCombined reads the records that were written. It returns the call whose statement
// failed; everything behind it is missing.
func (g *group) readCombined(results *wire.Results, calls []*call) (bad *call, err error) {
	if len(calls) > 1 {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	for _, c := range calls {
		c.written, err = table.ReadCombined(results, &c.Entry)
		if err != nil && !errors.Is(err, table.ErrSwallowed) {
			return c, err
		}
	}
	return nil, nil
}

// afterUndone says what comes after a combined statement that did not commit.
func (g *group) afterUndone(ctx context.Context, v verdict) (step, *call, error) {
	c := v.bad
	if !table.IsRecordInTheWay(v.err) {
		return stepAgain, nil, nil
	}
	seen, err := g.d.look(ctx, c, g.d.table.Peek)
	switch {
	case err == nil && seen.Found:
		g.find(c, seen.Record)
	case err == nil && seen.Busy:
		return g.wait(ctx, c)
	}
	return stepAgain, nil, nil // which meets the same, if it lasts
}
