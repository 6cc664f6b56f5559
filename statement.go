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
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/sqllex"
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
// Where one statement cannot do both (on servers that are no plain PostgreSQL, with
// ClaimFirst, at stricter isolation levels than READ COMMITTED, and where the record is
// remembered for less than an hour), they go as two in the transaction of Do, with the same
// answers. Errors are those of Do.
func DoStatement[R any](ctx context.Context, d *Deduper, call Call, stmt Statement) (result Result[R], err error) {
	ctx, c := startCall(ctx, d, "DoStatement", &call)
	defer c.span.abandon()
	if err = checkStatement[R](ctx, c, d, &call, &stmt); err == nil {
		err = c.do(ctx)
		result, err = answerStatement[R](c, err)
	}
	return result, c.end(err)
}

// checkStatement checks what DoStatement and DoBatch are called with.
func checkStatement[R any](ctx context.Context, c *call, d *Deduper, call *Call, stmt *Statement) (err error) {
	if err := c.check(ctx, d, call); err != nil {
		return err
	}
	if t := reflect.TypeFor[R](); !takesObject(t) {
		return invalid("R", "is %s, which takes no JSON object; use a struct with an exported field for each column", t)
	}
	c.stmt, err = d.texts.bind(ctx, stmt)
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

// combines reports whether effect and record of this call are sent as one statement. Only the
// first attempt is combined. After any failure the next one is separate, and finds out what the
// failure means.
//
// A statement that is its own transaction may arrive late. Where its record is remembered for
// a shorter time than that, it could arrive when the record of a later attempt is forgotten,
// and run once more. A COMMIT cannot: its transaction holds the identity until it comes. A
// call in doubt is never combined: a separate attempt waits for the lock, behind which the lost
// COMMIT has ended.
func (c *call) combines() bool {
	return c.outcome == table.Done && !c.separate && c.doubt.err == nil && c.Forget >= strayTime
}

// strayTime is more than a statement may be on its way to the server after its connection
// broke: kernels stop sending it again after a quarter of an hour.
const strayTime = time.Hour

// canCombine reports whether effect and record can be one statement on conn.
func (d *Deduper) canCombine(conn *pgx.Conn) bool {
	return d.opts.Order == LockFirst && d.opts.Isolation == pgx.ReadCommitted && d.table().Profile.Combines &&
		// Else a backslash may hide where a quote ends, and so a parameter.
		conn.PgConn().ParameterStatus("standard_conforming_strings") != "off"
}

// attemptCombined is an attempt that sends effect and record as one statement.
func (c *call) attemptCombined(ctx context.Context, conn *pgx.Conn) verdict {
	if ctx.Err() != nil {
		return fail(fmt.Errorf("dedup: before the statement: %w", contextError(ctx)))
	}
	v, _ := c.d.sendCombined(ctx, conn, []*call{c})
	if v.kind == failed {
		c.last.failedAt = atStatement
	}
	c.separate = true // the next attempt finds out why
	return v
}

// sendCombined sends effect and record of each call as one statement, all of them in one
// pipeline, which is one transaction. culprit is the call that made it fail, nil where that is not
// known.
func (d *Deduper) sendCombined(ctx context.Context, conn *pgx.Conn, calls []*call) (v verdict, culprit *call) {
	on, t := wire.On(conn), d.table()
	drop := func(culprit *call, err error) (verdict, *call) {
		wire.DropUnusable(ctx, conn, err)
		return fail(err), culprit
	}
	among := len(calls) > 1
	if culprit, err := d.prepareCombined(ctx, on, calls); err != nil {
		return drop(culprit, err)
	}
	latest := &calls[0].last.latest
	*latest = d.clock.in(d.opts.CommitTimeout)
	p := on.CallersPipeline()
	if among {
		t.QueueArrival(p, entries(calls), latest)
	}
	for _, c := range calls {
		if err := table.QueueCombined(p, c.stmt.combined(among), c.stmt.args, &c.Entry, latest, c.inPostgres()); err != nil {
			on.Stale(c.stmt.combined(among))
			return drop(c, err) // nothing was sent
		}
	}
	p.Send(ctx)
	for _, c := range calls {
		c.written = table.NewRecord(&c.Entry, table.Done, "")
		if table.ReadCombined(p, &c.Entry, &c.written); p.Failed() {
			if !among || p.Answered() > 0 { // else it was the arrival
				culprit = c
			}
			break // nothing behind the failure has an answer
		}
	}
	switch outcome, err := p.End(conn.PgConn()); {
	case outcome == wire.Unknown:
		return verdict{kind: unknown, err: cmp.Or(err, errNotSaid), until: *latest}, nil
	case outcome == wire.Committed:
		if err := wire.CheckSession(conn.PgConn()); err != nil { // a statement's doing: the rows came in that encoding
			return verdict{kind: unknown, err: err, until: *latest}, nil
		}
		d.clock.seen(calls[len(calls)-1].written.SeenAt)
		return verdict{kind: done}, nil
	case wire.IsUnsent(err) && among: // by pgx, which does not say whose arguments it refuses
		return drop(nil, err)
	default:
		if culprit != nil && table.MayBeStale(err) {
			on.Stale(culprit.stmt.combined(among))
		}
		return drop(culprit, err)
	}
}

// errNotSaid is a commit that the server has neither confirmed nor refused.
var errNotSaid = errors.New("dedup: the server has not said that it has committed")

// prepareCombined prepares the statements. culprit is the call whose text the server refuses, nil
// where it refuses another one.
func (d *Deduper) prepareCombined(ctx context.Context, on *wire.Conn, calls []*call) (culprit *call, err error) {
	if len(calls) == 1 {
		return calls[0], on.Prepare(ctx, calls[0].stmt.alone)
	}
	queries := []wire.Query{d.table().Arrival}
	for _, c := range calls {
		queries = append(queries, c.stmt.among)
	}
	if err = on.Prepare(ctx, wire.Distinct(queries)...); wire.IsRaised(err) {
		if i := slices.IndexFunc(calls, func(c *call) bool { return !on.Knows(c.stmt.among) }); i >= 0 {
			return calls[i], err
		}
	}
	return nil, err
}

// entries are what the calls bring to the table.
func entries(calls []*call) []*table.Entry {
	all := make([]*table.Entry, len(calls))
	for i, c := range calls {
		all[i] = &c.Entry
	}
	return all
}

// boundStatement is a Statement that is ready to be sent.
type boundStatement struct {
	*statementText
	args    []any
	onError func(error) error
}

// explain returns the call's error for an error of the statement. OnError is not asked about
// transient faults, which another attempt may not meet.
func (s *boundStatement) explain(err error) error {
	if s.onError != nil && !wire.IsTransient(err) && !wire.IsConnLost(err) && !wire.IsContextError(err) {
		return cmp.Or(s.onError(err), err)
	}
	return err
}

// statementText is what is made of a Statement's SQL, once for each text.
type statementText struct {
	// params is how many parameters it has.
	params int
	// effect runs the statement. alone and among run it and write its record; see
	// table.Combined.
	effect, alone, among wire.Query
}

// combined is the text of effect and record, alone or among others.
func (t *statementText) combined(among bool) wire.Query {
	if among {
		return t.among
	}
	return t.alone
}

// statementTexts remember what was made of the texts that were used.
type statementTexts struct {
	table *table.Table

	mu sync.RWMutex
	m  map[string]*statementText
}

// maxStatementTexts bounds the memory of programs that put values into their
// texts. It is the size of pgx's own cache of statements.
const maxStatementTexts = 512

// bind makes a statement ready to be sent, or returns an ErrInvalid.
func (t *statementTexts) bind(ctx context.Context, stmt *Statement) (bound boundStatement, err error) {
	sql, args := stmt.SQL, stmt.Args
	if len(args) > 0 {
		if rewriter, ok := args[0].(pgx.QueryRewriter); ok {
			if sql, args, err = rewriter.RewriteQuery(ctx, nil, sql, args[1:]); err != nil {
				return bound, &InvalidError{What: "call", Field: "Statement", Reason: "could not be rewritten", Err: err}
			}
		}
	}
	text, err := t.text(sql)
	if err != nil {
		return bound, err
	}
	if len(args) != text.params {
		return bound, invalid("Statement", "has %d parameters and %d arguments", text.params, len(args))
	}
	return boundStatement{statementText: text, args: args, onError: stmt.OnError}, nil
}

func (t *statementTexts) text(sql string) (*statementText, error) {
	t.mu.RLock()
	text := t.m[sql]
	t.mu.RUnlock()
	if text != nil {
		return text, nil
	}
	text, err := t.newText(sql)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil || len(t.m) >= maxStatementTexts {
		t.m = make(map[string]*statementText)
	}
	t.m[sql] = text
	return text, nil
}

func (t *statementTexts) newText(sql string) (*statementText, error) {
	with, params, err := sqllex.AsWith(sql, table.EffectName)
	if err != nil {
		return nil, invalid("Statement", "%s", err)
	}
	if params+table.CombinedParams > sqllex.MaxParams {
		return nil, invalid("Statement", "has %d parameters; at most %d are possible", params, sqllex.MaxParams-table.CombinedParams)
	}
	text := &statementText{params: params, effect: t.table.Effect(with)}
	text.alone, text.among = t.table.Combined(with, params)
	return text, nil
}
