package dedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// badRow is one misuse, the error that is documented for it, and what may be
// left of it. Whatever it is, it leaves no transaction, no lock and no
// connection behind, and the next call with the same key is answered.
type badRow struct {
	name string
	// run commits the misuse and returns its error. A panic is returned as a
	// panicked.
	run  func(w *badWorld) error
	want func(t *testing.T, err error)

	opts    dedup.Options
	proxied bool // w.proxy stands between pool and server
	records int  // left in tool_dedup, one at most
	effects int  // left in effects
	next    error
	replays bool // the next call is a replay
}

// badWorld is what a row works in.
type badWorld struct {
	*bundle
	t      *testing.T
	ctx    context.Context
	proxy  *faultproxy.Proxy
	traced *acquireTracer
}

// panicked is a panic, as an error.
type panicked struct{ value any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func caught(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked{v}
		}
	}()
	return f()
}

// is wants every one of targets in the chain.
func is(targets ...error) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		require.Error(t, err)
		for _, target := range targets {
			require.ErrorIs(t, err, target)
		}
	}
}

func fine(t *testing.T, err error) { t.Helper(); require.NoError(t, err) }

// invalidCall wants an *InvalidCallError about field, and no retry.
func invalidCall(field string, causes ...error) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var invalid *dedup.InvalidCallError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
		require.NotEmpty(t, invalid.Reason)
		require.False(t, dedup.IsRetryable(err))
		is(causes...)(t, err)
	}
}

func badResult(op string, causes ...error) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var result *dedup.ResultError
		require.ErrorAs(t, err, &result)
		require.Equal(t, op, result.Op)
		require.Nil(t, result.Stored)
		require.False(t, dedup.IsRetryable(err))
		is(append(causes, dedup.ErrResult)...)(t, err)
	}
}

func badOption(option string) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var bad *dedup.OptionsError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, option, bad.Option)
		require.NotEmpty(t, bad.Reason)
		require.ErrorIs(t, err, dedup.ErrOptions)
	}
}

// state wants a server's error.
func state(code string) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var server *pgconn.PgError
		require.ErrorAs(t, err, &server)
		require.Equal(t, code, server.Code)
	}
}

func panics(value any) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		require.Equal(t, panicked{value}, err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	var rows []badRow
	for _, some := range [][]badRow{
		badNames(), badCallers(), badArgs(), badPolicies(), badResults(), badOptions(),
		badEffects(), badEndings(), badNesting(), badTransactions(), badContexts(), badSessions(),
	} {
		rows = append(rows, some...)
	}
	require.GreaterOrEqual(t, len(rows), 60)
	seen := map[string]bool{}
	for _, row := range rows {
		require.False(t, seen[row.name], row.name)
		seen[row.name] = true
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newBadWorld(t, row)
			err := caught(func() error { return row.run(w) })
			row.want(t, err)
			w.requireClean(row)
		})
	}
}

func newBadWorld(t *testing.T, row badRow) *badWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	w := &badWorld{bundle: &bundle{db: pgtest.New(t)}, t: t, ctx: ctx, traced: &acquireTracer{}}
	via := *w.db
	if row.proxied {
		var err error
		w.proxy, err = faultproxy.New(w.db.URL)
		require.NoError(t, err)
		t.Cleanup(w.proxy.Close)
		via.URL = w.proxy.URL()
	}
	w.pool = via.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = w.traced })
	w.exec(t, `CREATE TABLE effects (ref text NOT NULL)`)
	w.d = newDeduper(t, w.pool, &row.opts)
	return w
}

// requireClean checks what is left, and that the identity is not lost.
func (w *badWorld) requireClean(row badRow) {
	t := w.t
	t.Helper()
	require.Equal(t, row.records, w.records(t), "records")
	require.Equal(t, row.effects, w.effects(t, "k"), "effects")
	w.requireNoLeak()

	result, err := dedup.Do(w.ctx, w.d, call("k"), effect("k"))
	if row.next != nil {
		require.ErrorIs(t, err, row.next)
		require.Equal(t, row.effects, w.effects(t, "k"), "effects after the next call")
		return
	}
	require.NoError(t, err)
	require.Equal(t, row.replays, result.Replayed)
	if !row.replays {
		row.effects++
	}
	require.Equal(t, row.effects, w.effects(t, "k"), "effects after the next call")
	require.Equal(t, 1, w.records(t), "records after the next call")
}

// requireNoLeak waits until every connection is in the pool again, and until
// the server has neither a transaction nor an advisory lock of this database.
func (w *badWorld) requireNoLeak() {
	t := w.t
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, limit/2)
	defer cancel()
	all := make([]*pgxpool.Conn, w.pool.Config().MaxConns)
	for i := range all {
		var err error
		all[i], err = w.pool.Acquire(ctx)
		require.NoError(t, err, "a connection has not been given back")
		require.Equal(t, byte('I'), all[i].Conn().PgConn().TxStatus())
	}
	for _, conn := range all {
		conn.Release()
	}
	stat := w.pool.Stat()
	require.Equal(t, stat.TotalConns(), stat.IdleConns())

	observer, err := pgx.Connect(ctx, w.db.URL)
	require.NoError(t, err)
	defer observer.Close(context.WithoutCancel(ctx))
	for {
		var transactions, locks int
		err := observer.QueryRow(ctx, `
			SELECT (SELECT count(*) FROM pg_stat_activity
			         WHERE datname = current_database() AND pid <> pg_backend_pid()
			           AND backend_type = 'client backend' AND xact_start IS NOT NULL),
			       (SELECT count(*) FROM pg_locks
			         WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`,
		).Scan(&transactions, &locks)
		require.NoError(t, err, "the server still has %d transactions and %d advisory locks", transactions, locks)
		if transactions+locks == 0 {
			return
		}
	}
}

// acquireTracer tells when a call begins to wait for a connection.
type acquireTracer struct{ waiting func() }

func (a *acquireTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (a *acquireTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (a *acquireTracer) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	if a.waiting != nil {
		a.waiting()
	}
	return ctx
}
func (a *acquireTracer) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {
}

// step is the rest of an effect whose first statement was fine.
type step func(ctx context.Context, tx pgx.Tx) error

func (s step) effect() dedup.Effect[ticket] {
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`); err != nil {
			return ticket{}, err
		}
		return ticket{ID: 7, Title: "k"}, s(ctx, tx)
	}
}

func (w *badWorld) do(s step) error { return w.doCtx(w.ctx, s) }

func (w *badWorld) doCtx(ctx context.Context, s step) error {
	_, err := dedup.Do(ctx, w.d, call("k"), s.effect())
	return err
}

// doTx makes the call in a transaction that commits whatever comes of it.
func (w *badWorld) doTx(s step) error {
	tx, err := w.pool.Begin(w.ctx)
	require.NoError(w.t, err)
	defer tx.Rollback(context.WithoutCancel(w.ctx))
	err = caught(func() error {
		_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), s.effect())
		return err
	})
	w.requireUsable(tx)
	return err
}

// requireUsable commits tx with a row of its own.
func (w *badWorld) requireUsable(tx pgx.Tx) {
	w.t.Helper()
	_, err := tx.Exec(w.ctx, `INSERT INTO effects (ref) VALUES ('caller')`)
	require.NoError(w.t, err, "the caller's transaction is not as it was")
	require.NoError(w.t, tx.Commit(w.ctx))
	require.Equal(w.t, 1, w.effects(w.t, "caller"))
}

// inTx runs f in a transaction of the pool and rolls it back.
func (w *badWorld) inTx(f func(tx pgx.Tx) error) error {
	tx, err := w.pool.Begin(w.ctx)
	require.NoError(w.t, err)
	defer tx.Rollback(context.WithoutCancel(w.ctx))
	return f(tx)
}

func (w *badWorld) doWith(c dedup.Call) error {
	_, err := dedup.Do(w.ctx, w.d, c, effect("k"))
	return err
}

func badNames() (rows []badRow) {
	malformed := []struct{ name, value string }{
		{"Empty", ""}, {"Huge", strings.Repeat("x", 256)}, {"HugeInBytes", strings.Repeat("é", 128)},
		{"NUL", "a\x00b"}, {"InvalidUTF8", "a\xffb"}, {"CutUTF8", "é"[:1]}, {"SurrogateUTF8", "\xed\xa0\x80"},
		{"Newline", "a\nb"}, {"Escape", "\x1b[2J"}, {"DEL", "a\x7f"}, {"C1Control", "a\u0085"},
	}
	fields := []struct {
		name     string
		set      func(c *dedup.Call, v string)
		required error
	}{
		{"Scope", func(c *dedup.Call, v string) { c.Scope = v }, dedup.ErrScopeRequired},
		{"Tool", func(c *dedup.Call, v string) { c.Tool = v }, dedup.ErrToolRequired},
		{"Key", func(c *dedup.Call, v string) { c.Key = v }, dedup.ErrKeyRequired},
	}
	for _, field := range fields {
		for _, bad := range malformed {
			want := invalidCall(field.name)
			if bad.value == "" {
				want = invalidCall(field.name, field.required)
			}
			rows = append(rows, badRow{name: field.name + bad.name, want: want, run: func(w *badWorld) error {
				c := call("k")
				field.set(&c, bad.value)
				want(w.t, w.inTx(func(tx pgx.Tx) error {
					_, err := dedup.DoTx(w.ctx, w.d, tx, c, effect("k"))
					_, alive := tx.Exec(w.ctx, `SELECT 1`)
					require.NoError(w.t, alive)
					return err
				}))
				_, err := w.d.Lookup(w.ctx, c.Scope, c.Tool, c.Key)
				want(w.t, err)
				_, err = w.d.Reset(w.ctx, c.Scope, c.Tool, c.Key, "test")
				want(w.t, err)
				return w.doWith(c)
			}})
		}
	}
	return rows
}

func badCallers() []badRow {
	var none context.Context
	anyTx := func(w *badWorld, d *dedup.Deduper, ctx context.Context, e dedup.Effect[ticket]) error {
		return w.inTx(func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, d, tx, call("k"), e)
			return err
		})
	}
	onlyErr := func(_ any, err error) error { return err }
	return []badRow{
		{name: "NilContext", want: invalidCall("ctx"), run: func(w *badWorld) error {
			return onlyErr(dedup.Do(none, w.d, call("k"), effect("k")))
		}},
		{name: "NilContextTx", want: invalidCall("ctx"), run: func(w *badWorld) error { return anyTx(w, w.d, none, effect("k")) }},
		{name: "NilContextLookup", want: invalidCall("ctx"), run: func(w *badWorld) error {
			return onlyErr(w.d.Lookup(none, "acme", "t", "k"))
		}},
		{name: "NilContextReset", want: invalidCall("ctx"), run: func(w *badWorld) error {
			return onlyErr(w.d.Reset(none, "acme", "t", "k", "test"))
		}},
		{name: "NilDeduper", want: invalidCall("d"), run: func(w *badWorld) error {
			return onlyErr(dedup.Do(w.ctx, nil, call("k"), effect("k")))
		}},
		{name: "NilDeduperTx", want: invalidCall("d"), run: func(w *badWorld) error { return anyTx(w, nil, w.ctx, effect("k")) }},
		{name: "ZeroDeduper", want: invalidCall("d"), run: func(w *badWorld) error {
			return onlyErr(dedup.Do(w.ctx, &dedup.Deduper{}, call("k"), effect("k")))
		}},
		{name: "ZeroDeduperTx", want: invalidCall("d"), run: func(w *badWorld) error {
			return anyTx(w, &dedup.Deduper{}, w.ctx, effect("k"))
		}},
		{name: "ZeroDeduperLookup", want: invalidCall("d"), run: func(w *badWorld) error {
			return onlyErr(new(dedup.Deduper).Lookup(w.ctx, "acme", "t", "k"))
		}},
		{name: "ZeroDeduperReset", want: invalidCall("d"), run: func(w *badWorld) error {
			return onlyErr(new(dedup.Deduper).Reset(w.ctx, "acme", "t", "k", "test"))
		}},
		{name: "NilDeduperLookup", want: invalidCall("d"), run: func(w *badWorld) error {
			var d *dedup.Deduper
			return onlyErr(d.Lookup(w.ctx, "acme", "t", "k"))
		}},
		{name: "NilEffect", want: invalidCall("effect"), run: func(w *badWorld) error {
			return onlyErr(dedup.Do[ticket](w.ctx, w.d, call("k"), nil))
		}},
		{name: "NilEffectTx", want: invalidCall("effect"), run: func(w *badWorld) error { return anyTx(w, w.d, w.ctx, nil) }},
		{name: "ResetWithoutReason", want: invalidCall("reason"), run: func(w *badWorld) error {
			return onlyErr(w.d.Reset(w.ctx, "acme", "create_ticket", "k", ""))
		}},
	}
}

type failing struct{ err error }

func (f failing) MarshalJSON() ([]byte, error) { return nil, f.err }

type panicking struct{ value any }

func (p panicking) MarshalJSON() ([]byte, error) { panic(p.value) }

var errOwn = errors.New("the tool's own error")

func badArgs() (rows []badRow) {
	type node struct {
		Next *node `json:"next"`
		To   any   `json:"to"`
	}
	circle := &node{}
	circle.Next = circle
	loop := map[string]any{}
	loop["self"] = loop
	bad := func(name string, args any, causes ...error) {
		rows = append(rows, badRow{name: "Args" + name, want: invalidCall("Args", causes...), run: func(w *badWorld) error {
			c := call("k")
			c.Args = args
			_, err := dedup.FingerprintOf(args)
			invalidCall("Args", causes...)(w.t, err)
			return w.doWith(c)
		}})
	}
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	bad("NaN", math.NaN())
	bad("Inf", map[string]any{"x": math.Inf(-1)})
	bad("Channel", make(chan int))
	bad("Func", map[string]any{"f": func() {}})
	bad("Complex", complex(1, 2))
	bad("CyclicPointer", circle)
	bad("CyclicMap", loop)
	bad("MarshalError", failing{errOwn}, errOwn)
	bad("Bytes", []byte(`{"a":1}`))
	bad("DuplicateNames", raw(`{"a":1,"a":2}`))
	bad("DuplicateNamesByEscape", raw(`{"a":1,"\u0061":1}`))
	bad("DuplicateNamesNested", raw(`[{"x":{"b":0,"a":1,"b":2}}]`))
	bad("InvalidUTF8", map[string]any{"a": "\xff"})
	bad("InvalidUTF8Name", map[string]any{"\xff": 1})
	bad("InvalidUTF8Raw", raw("\"\xff\""))
	bad("LoneSurrogate", raw(`"\ud800"`))
	bad("LoneLowSurrogate", raw(`{"a":"\udc00x"}`))
	bad("TooDeep", raw(strings.Repeat("[", dedup.MaxArgsDepth+1)+strings.Repeat("]", dedup.MaxArgsDepth+1)))
	bad("TooLarge", strings.Repeat("x", dedup.MaxArgsSize))
	bad("TooLargeRaw", raw(strings.Repeat(" ", dedup.MaxArgsSize)+"1"))
	bad("RawEmpty", raw(""))
	bad("RawBlank", raw(" \n"))
	bad("RawCut", raw(`{"a":`))
	bad("RawTrailing", raw(`{} {}`))
	bad("RawControl", raw("\"\x00\""))
	bad("RawNotJSON", raw(`{a:1}`))
	bad("RawLeadingZero", raw(`01`))
	bad("RawNaN", raw(`NaN`))
	bad("HugeExponent", raw(`1e1000000001`))
	bad("NestedRawNotJSON", map[string]any{"a": raw(`{`)})
	return append(rows, badRow{name: "ArgsMarshalPanic", want: panics("args"), run: func(w *badWorld) error {
		c := call("k")
		c.Args = panicking{"args"}
		return w.doWith(c)
	}})
}

func badPolicies() (rows []badRow) {
	bad := func(name, field string, set func(c *dedup.Call)) {
		rows = append(rows, badRow{name: name, want: invalidCall(field), run: func(w *badWorld) error {
			c := call("k")
			set(&c)
			return w.doWith(c)
		}})
	}
	const year = 365 * 24 * time.Hour
	for name, r := range map[string]dedup.Retention{
		"Negative": {Result: -1}, "SubMillisecond": {Result: time.Microsecond}, "Endless": {Result: 101 * year},
		"Most": {Result: math.MaxInt64}, "Least": {Result: math.MinInt64}, "EndlessTombstone": {Tombstone: 101 * year},
	} {
		bad("Retention"+name, "Retention", func(c *dedup.Call) { c.Retention = r })
	}
	bad("UnknownPolicy", "Errors", func(c *dedup.Call) { c.Errors = 3 })
	bad("NegativePolicy", "Errors", func(c *dedup.Call) { c.Errors = -1 })
	return rows
}

// oneWay encodes and does not decode.
type oneWay struct{}

func (oneWay) MarshalJSON() ([]byte, error)  { return []byte(`"x"`), nil }
func (*oneWay) UnmarshalJSON(b []byte) error { return errOwn }

func badResults() (rows []badRow) {
	rows = []badRow{
		returns("Channel", make(chan int), badResult("encode")),
		returns("ChannelInAny", any(make(chan int)), badResult("encode")),
		returns("NaN", math.NaN(), badResult("encode")),
		returns("Inf", []float64{math.Inf(1)}, badResult("encode")),
		returns("Func", func() {}, badResult("encode")),
		returns("Complex", complex(1, 1), badResult("encode")),
		returns("Oversized", strings.Repeat("x", 1<<20), badResult("size")),
		returns("OversizedRaw", json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`), badResult("size")),
		returns("RawInvalid", json.RawMessage(`{"a":`), badResult("encode")),
		returns("RawEmpty", json.RawMessage{}, badResult("encode")),
		returns("RawNotUTF8", json.RawMessage("\"\xff\""), badResult("encode")),
		returns("RawNUL", json.RawMessage("\"a\x00b\""), badResult("encode")),
		returns("RawInStruct", struct{ A json.RawMessage }{json.RawMessage(`{`)}, badResult("encode")),
		returns("OneWay", oneWay{}, badResult("decode", errOwn)),
		returns("Interface", fmt.Stringer(time.Second), badResult("decode")),
		returns("MapOfInterfaces", map[string]error{"a": errOwn}, badResult("decode")),
		returns("OutOfRangeInJSON", struct{ A *wide }{new(wide)}, badResult("decode")),
		returns("MarshalError", failing{errOwn}, badResult("encode", errOwn)),
		returns("MarshalPanic", panicking{"result"}, panics("result")),
		returns("MarshalPanicError", panicking{errOwn}, panics(errOwn)),
	}
	nothing := returns("RawNil", json.RawMessage(nil), fine) // is null
	nothing.records, nothing.effects, nothing.replays = 1, 1, true
	return append(rows, nothing)
}

// wide writes a number that no int64 holds.
type wide int64

func (*wide) MarshalJSON() ([]byte, error) { return []byte("1e400"), nil }

func returns[R any](name string, value R, want func(*testing.T, error)) badRow {
	return badRow{name: "Result" + name, want: want, run: func(w *badWorld) error {
		works := func(ctx context.Context, tx pgx.Tx) (R, error) {
			_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`)
			return value, err
		}
		if name != "RawNil" {
			tx, err := w.pool.Begin(w.ctx)
			require.NoError(w.t, err)
			defer tx.Rollback(context.WithoutCancel(w.ctx))
			want(w.t, caught(func() error {
				_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), works)
				return err
			}))
			w.requireUsable(tx)
		}
		result, err := dedup.Do(w.ctx, w.d, call("k"), works)
		require.False(w.t, result.Replayed)
		return err
	}}
}

func badOptions() (rows []badRow) {
	bad := func(name, option string, opts dedup.Options) {
		rows = append(rows, badRow{name: "Options" + name, want: badOption(option), run: func(w *badWorld) error {
			_, err := dedup.New(w.pool, &opts)
			return err
		}})
	}
	bad("LongSchema", "Schema", dedup.Options{Schema: strings.Repeat("x", 64)})
	bad("NULSchema", "Schema", dedup.Options{Schema: "a\x00"})
	bad("Order", "Order", dedup.Options{Order: 2})
	bad("Isolation", "Isolation", dedup.Options{Isolation: pgx.ReadUncommitted})
	bad("Attempts", "Retry.MaxAttempts", dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: -1}})
	bad("SmallResults", "MaxResultBytes", dedup.Options{MaxResultBytes: 1})
	bad("Tracer", "Tracer", dedup.Options{Tracer: 1})
	return append(rows,
		badRow{name: "OptionsNilPool", want: badOption("pool"), run: func(*badWorld) error {
			_, err := dedup.New(nil, nil)
			return err
		}},
		badRow{name: "OptionsForeignSchema", want: is(dedup.ErrArbiter), run: func(w *badWorld) error {
			_, err := dedup.Do(w.ctx, newDeduper(w.t, w.pool, &dedup.Options{Schema: "nowhere"}), call("k"), effect("k"))
			return err
		}},
		badRow{name: "OptionsHostileSchema", want: is(dedup.ErrArbiter), run: func(w *badWorld) error {
			d := newDeduper(w.t, w.pool, &dedup.Options{Schema: `public"; DROP TABLE tool_dedup; --`})
			_, err := dedup.Do(w.ctx, d, call("k"), effect("k"))
			return err
		}},
	)
}

// rewritten is a QueryRewriter: the text that it sends is not the one that was
// looked at.
type rewritten string

func (r rewritten) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(r), nil, nil
}

type customPanic struct{ Code int }

func badEffects() (rows []badRow) {
	both := func(row badRow, s step) {
		do, doTx := row, row
		do.run = func(w *badWorld) error { return w.do(s) }
		doTx.name += "Tx"
		doTx.run = func(w *badWorld) error { return w.doTx(s) }
		rows = append(rows, do, doTx)
	}
	sql := func(text string) step {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, text); return err }
	}

	control := is(dedup.ErrTxControl)
	for name, s := range map[string]step{
		"TxCommit":     func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"TxRollback":   func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"Exec":         sql("COMMIT"),
		"ExecRollback": sql("ROLLBACK"),
		"ExecBegin":    sql("BEGIN"),
		"ExecComment":  sql("/* /* x */ */ -- y\n cOmMiT"),
		"ExecMany":     sql("SELECT 1; COMMIT; BEGIN"),
		"ExecChain":    sql("COMMIT AND CHAIN"),
		"ExecTwoPhase": sql("PREPARE TRANSACTION 'x'"),
		"ExecSimple": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "commit; begin", pgx.QueryExecModeSimpleProtocol)
			return err
		},
		"Query":    func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Query(ctx, "COMMIT"); return err },
		"QueryRow": func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, "COMMIT").Scan() },
		"Prepare":  func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Prepare(ctx, "p", "COMMIT"); return err },
		"SendBatch": func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			b.Queue("COMMIT")
			return tx.SendBatch(ctx, b).Close()
		},
		"BatchBegin": func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.BeginTx(pgx.TxOptions{})
			return tx.SendBatch(ctx, b).Close()
		},
		"Savepoint": func(ctx context.Context, tx pgx.Tx) error {
			sub, err := tx.Begin(ctx)
			if err == nil {
				_, err = sub.Exec(ctx, "COMMIT")
			}
			return err
		},
		"DeferRollback": func(ctx context.Context, tx pgx.Tx) error { defer tx.Rollback(ctx); return nil },
	} {
		both(badRow{name: "Control" + name, want: control}, s)
		if name == "DeferRollback" {
			continue
		}
		both(badRow{name: "ControlSwallowed" + name, want: control}, func(ctx context.Context, tx pgx.Tx) error { _ = s(ctx, tx); return nil })
		both(badRow{name: "ControlReplaced" + name, want: control}, func(ctx context.Context, tx pgx.Tx) error { _ = s(ctx, tx); return errOwn })
	}

	both(badRow{name: "OwnError", want: is(errOwn)}, func(context.Context, pgx.Tx) error { return errOwn })
	both(badRow{name: "Swallowed", want: is(dedup.ErrTxAborted)}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return nil
	})
	both(badRow{name: "SwallowedThenOwnError", want: is(errOwn)}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return errOwn
	})
	both(badRow{name: "ServerError", want: state("22012")}, sql("SELECT 1/0"))
	both(badRow{name: "OwnUnique", want: state("23505")}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "CREATE TABLE u (a int PRIMARY KEY); INSERT INTO u VALUES (1), (1)")
		return err
	})
	both(badRow{name: "StatementTimeout", want: state("57014")}, sql("SET LOCAL statement_timeout = 1; SELECT pg_sleep(60)"))
	both(badRow{name: "DiscardAll", want: state("25001")}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DISCARD ALL")
		return err
	})
	both(badRow{name: "CommitInBlock", want: state("2D000")}, sql("DO $$BEGIN COMMIT; END$$"))

	for name, value := range map[string]any{
		"String": "boom", "Error": errOwn, "Struct": customPanic{7}, "Pointer": &customPanic{}, "Zero": 0,
		"Empty": "", "NilPointer": (*customPanic)(nil), "ControlError": dedup.ErrTxControl,
	} {
		both(badRow{name: "Panic" + name, want: panics(value)}, func(context.Context, pgx.Tx) error { panic(value) })
	}
	nilPanic := func(t *testing.T, err error) {
		t.Helper()
		require.IsType(t, new(runtime.PanicNilError), err.(panicked).value)
	}
	both(badRow{name: "PanicNil", want: nilPanic}, func(context.Context, pgx.Tx) error { panic(nil) })
	both(badRow{name: "PanicAborted", want: panics("boom")}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		panic("boom")
	})
	both(badRow{name: "RuntimePanic", want: func(t *testing.T, err error) {
		var runtimeErr runtime.Error
		require.ErrorAs(t, err.(panicked).value.(error), &runtimeErr)
	}}, func(context.Context, pgx.Tx) error { var none []int; return errors.New(string(rune(none[len(none)]))) })

	goexit := func(run func(w *badWorld, s step) error) func(w *badWorld) error {
		return func(w *badWorld) error {
			ended, returned := make(chan struct{}), false
			go func() {
				defer close(ended)
				_ = run(w, func(context.Context, pgx.Tx) error { runtime.Goexit(); return nil })
				returned = true
			}()
			<-ended
			require.False(w.t, returned)
			return nil
		}
	}
	rows = append(rows,
		badRow{name: "Goexit", want: fine, run: goexit((*badWorld).do)},
		badRow{name: "GoexitTx", want: fine, run: goexit(func(w *badWorld, s step) error {
			tx, err := w.pool.Begin(w.ctx)
			require.NoError(w.t, err)
			defer w.requireUsable(tx)
			_, err = dedup.DoTx(w.ctx, w.d, tx, call("k"), s.effect())
			return err
		})},
	)

	// What is left open makes the connection unusable, so only Do goes on.
	do := func(row badRow, s step) {
		row.run = func(w *badWorld) error { return w.do(s) }
		rows = append(rows, row)
	}
	many := "SELECT generate_series(1, 1000)"
	do(badRow{name: "OpenRows", want: is(dedup.ErrTxBusy)}, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, many)
		rows.Next()
		return err
	})
	do(badRow{name: "OpenRow", want: is(dedup.ErrTxBusy)}, func(ctx context.Context, tx pgx.Tx) error { tx.QueryRow(ctx, many); return nil })
	do(badRow{name: "OpenBatch", want: is(dedup.ErrTxBusy)}, func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(many)
		tx.SendBatch(ctx, b)
		return nil
	})
	do(badRow{name: "OpenRowsAndOwnError", want: is(errOwn)}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Query(ctx, many)
		return errOwn
	})
	do(badRow{name: "OpenRowsAndPanic", want: panics("boom")}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Query(ctx, many)
		panic("boom")
	})
	do(badRow{name: "TwoStatementsAtOnce", want: func(t *testing.T, err error) { require.ErrorContains(t, err, "conn busy") }},
		func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Query(ctx, many)
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		})
	return rows
}

func brokenEffect(t *testing.T, err error) {
	t.Helper()
	var broken *dedup.BrokenError
	require.ErrorAs(t, err, &broken)
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.False(t, dedup.IsRetryable(err))
	require.NotContains(t, err.Error(), "could not be recorded")
}

// badEndings end the library's transaction by doors that stay open.
func badEndings() (rows []badRow) {
	broken := func(name string, effects int, s step) {
		row := badRow{name: "Broken" + name, want: brokenEffect, records: 1, effects: effects, next: dedup.ErrBroken}
		do, doTx := row, row
		do.run = func(w *badWorld) error { return w.do(s) }
		doTx.name += "Tx"
		doTx.run = func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), s.effect())
				return err
			})
		}
		rows = append(rows, do, doTx)
	}
	conn := func(text string, after error) step {
		return func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Conn().Exec(ctx, text); err != nil {
				return err
			}
			return after
		}
	}
	for name, text := range map[string]string{"Commit": "COMMIT", "Chain": "COMMIT AND CHAIN", "CommitBegin": "commit; begin"} {
		broken(name, 1, conn(text, nil))
		broken(name+"Error", 1, conn(text, errOwn))
		broken(name+"Final", 1, conn(text, dedup.Final(errOwn)))
	}
	broken("Rollback", 0, conn("ROLLBACK", nil))
	broken("RollbackError", 0, conn("ROLLBACK", errOwn))
	broken("RollbackChain", 0, conn("ROLLBACK AND CHAIN", nil))
	const insert = `INSERT INTO effects (ref) VALUES ('k')`
	broken("RollbackThenEffect", 0, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "ROLLBACK")
		if err == nil {
			_, _ = tx.Exec(ctx, insert) // refused: it would commit by itself
		}
		return err
	})
	broken("RollbackThenConn", 1, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "ROLLBACK")
		if err == nil {
			_, err = tx.Conn().Exec(ctx, insert)
		}
		return err
	})
	broken("RollbackBeginThenEffect", 0, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "rollback; begin")
		if err == nil {
			_, err = tx.Exec(ctx, insert)
		}
		return err
	})
	broken("ConnBegin", 1, func(ctx context.Context, tx pgx.Tx) error {
		inner, err := tx.Conn().Begin(ctx) // only a warning
		if err != nil {
			return err
		}
		return inner.Commit(ctx)
	})
	broken("ConnBeginRollback", 0, func(ctx context.Context, tx pgx.Tx) error {
		inner, err := tx.Conn().Begin(ctx)
		if err != nil {
			return err
		}
		return inner.Rollback(ctx)
	})
	broken("PreparedOnConn", 1, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Prepare(ctx, "p", "COMMIT")
		if err == nil {
			_, err = tx.Exec(ctx, "p")
		}
		return err
	})
	broken("CommitThenBadResult", 1, conn("COMMIT", dedup.ErrResult))
	for name, text := range map[string]string{"Commit": "COMMIT", "Chain": "COMMIT AND CHAIN"} {
		for after, err := range map[string]error{"": nil, "Error": errOwn} {
			broken("Rewriter"+name+after, 1, func(ctx context.Context, tx pgx.Tx) error {
				if _, failed := tx.Exec(ctx, "SELECT 1", rewritten(text)); failed != nil {
					return failed
				}
				return err
			})
			broken("OldStrings"+name+after, 1, func(ctx context.Context, tx pgx.Tx) error {
				if _, failed := tx.Exec(ctx, "SET LOCAL standard_conforming_strings = off"); failed != nil {
					return failed
				}
				if _, failed := tx.Exec(ctx, `SELECT '\''; `+text+`; --'`); failed != nil {
					return failed
				}
				return err
			})
		}
	}

	commit := func(ctx context.Context, tx pgx.Tx) {
		if _, err := tx.Conn().Exec(ctx, "COMMIT"); err != nil {
			panic(err)
		}
	}
	return append(rows,
		badRow{name: "BrokenCommitPanic", want: panics("boom"), records: 1, effects: 1, next: dedup.ErrBroken, run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error { commit(ctx, tx); panic("boom") })
		}},
		badRow{name: "BrokenCommitCancelled", want: brokenEffect, records: 1, effects: 1, next: dedup.ErrBroken, run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(ctx context.Context, tx pgx.Tx) error { commit(ctx, tx); cancel(); return ctx.Err() })
		}},
		badRow{name: "BrokenThenReset", want: brokenEffect, effects: 1, run: func(w *badWorld) error {
			err := w.do(conn("COMMIT", nil))
			freed, reset := w.d.Reset(w.ctx, "acme", "create_ticket", "k", "repaired")
			require.NoError(w.t, reset)
			require.True(w.t, freed)
			return err
		}},
	)
}

func badNesting() []badRow {
	nested := func(key string) func(w *badWorld) step {
		return func(w *badWorld) step {
			return func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.Do(ctx, w.d, call(key), effect(key))
				return err
			}
		}
	}
	reentrant := func(w *badWorld) step {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, w.d, tx, call("k"), effect("k"))
			return err
		}
	}
	swallow := func(s step) step {
		return func(ctx context.Context, tx pgx.Tx) error { _ = s(ctx, tx); return nil }
	}
	// cancelled is an inner call whose own context ends, before it or in it.
	cancelled := func(w *badWorld, before bool) step {
		return func(ctx context.Context, tx pgx.Tx) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if before {
				cancel()
			}
			_, err := dedup.DoTx(ctx, w.d, tx, call("inner"), step(func(ctx context.Context, tx pgx.Tx) error {
				cancel()
				return ctx.Err()
			}).effect())
			return err
		}
	}
	return []badRow{
		{name: "DoInDo", want: is(dedup.ErrNested), run: func(w *badWorld) error { return w.do(nested("other")(w)) }},
		{name: "DoInDoSameKey", want: is(dedup.ErrNested), run: func(w *badWorld) error { return w.do(nested("k")(w)) }},
		{name: "DoInDoTx", want: is(dedup.ErrNested), run: func(w *badWorld) error { return w.doTx(nested("other")(w)) }},
		{name: "DoInDoDerived", want: is(dedup.ErrNested), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
				defer cancel()
				return nested("other")(w)(ctx, tx)
			})
		}},
		{name: "DoInDoOtherDeduper", want: is(dedup.ErrNested), run: func(w *badWorld) error {
			other := newDeduper(w.t, w.pool, nil)
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.Do(ctx, other, call("other"), effect("other"))
				return err
			})
		}},
		{name: "DoInDoInGoroutine", want: is(dedup.ErrNested), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				answer := make(chan error)
				go func() { answer <- nested("other")(w)(ctx, tx) }()
				return <-answer
			})
		}},
		{name: "DoInDoSwallowed", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.do(swallow(nested("other")(w)))
		}},
		{name: "Reentrant", want: is(dedup.ErrReentrant), run: func(w *badWorld) error { return w.do(reentrant(w)) }},
		{name: "ReentrantTx", want: is(dedup.ErrReentrant), run: func(w *badWorld) error { return w.doTx(reentrant(w)) }},
		{name: "ReentrantSwallowed", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error { return w.do(swallow(reentrant(w))) }},
		{name: "ReentrantThroughAnother", want: is(dedup.ErrReentrant), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, w.d, tx, call("other"), reentrant(w).effect())
				return err
			})
		}},
		{name: "ReentrantByOtherDeduper", want: is(dedup.ErrReentrant), run: func(w *badWorld) error {
			other := newDeduper(w.t, w.pool, nil)
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, other, tx, call("k"), effect("k"))
				return err
			})
		}},
		{name: "NestedPanicRecovered", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				err := caught(func() error {
					_, err := dedup.DoTx(ctx, w.d, tx, call("other"), step(func(context.Context, pgx.Tx) error { panic("inner") }).effect())
					return err
				})
				panics("inner")(w.t, err)
				return nil
			})
		}},
		// An inner call whose context ends leaves the outer effect as it was.
		{name: "InnerCancelledBefore", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.do(swallow(cancelled(w, true)))
		}},
		{name: "InnerCancelledBeforeTx", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.doTx(swallow(cancelled(w, true)))
		}},
		{name: "InnerCancelledIn", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.do(swallow(cancelled(w, false)))
		}},
		{name: "InnerCancelledInTx", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.doTx(swallow(cancelled(w, false)))
		}},
		// And when the outer effect fails of it, nothing of either stays.
		{name: "InnerCancelledBeforeFails", want: is(context.Canceled), run: func(w *badWorld) error { return w.do(cancelled(w, true)) }},
		{name: "InnerCancelledBeforeFailsTx", want: is(context.Canceled), run: func(w *badWorld) error { return w.doTx(cancelled(w, true)) }},
		{name: "InnerCancelledInFails", want: is(context.Canceled), run: func(w *badWorld) error { return w.do(cancelled(w, false)) }},
		{name: "InnerCancelledInFailsTx", want: is(context.Canceled), run: func(w *badWorld) error { return w.doTx(cancelled(w, false)) }},
	}
}

func badTransactions() []badRow {
	doTx := func(w *badWorld, tx pgx.Tx) error {
		_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), effect("k"))
		return err
	}
	return []badRow{
		{name: "TxNil", want: invalidCall("tx"), run: func(w *badWorld) error { return doTx(w, nil) }},
		{name: "TxCommitted", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { require.NoError(w.t, tx.Commit(w.ctx)); return doTx(w, tx) })
		}},
		{name: "TxRolledBack", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { require.NoError(w.t, tx.Rollback(w.ctx)); return doTx(w, tx) })
		}},
		{name: "TxEndedBySQL", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				_, err := tx.Exec(w.ctx, "ROLLBACK")
				require.NoError(w.t, err)
				return doTx(w, tx)
			})
		}},
		{name: "TxEndedSavepoint", want: is(pgx.ErrTxClosed), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				sub, err := tx.Begin(w.ctx)
				require.NoError(w.t, err)
				require.NoError(w.t, sub.Commit(w.ctx))
				err = doTx(w, sub)
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxAborted", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { _, _ = tx.Exec(w.ctx, "SELECT 1/0"); return doTx(w, tx) })
		}},
		{name: "TxConnClosed", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { require.NoError(w.t, tx.Conn().Close(w.ctx)); return doTx(w, tx) })
		}},
		{name: "TxBusy", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				rows, err := tx.Query(w.ctx, "SELECT generate_series(1, 1000)")
				require.NoError(w.t, err)
				err = doTx(w, tx)
				rows.Close()
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxOfAnEffectThatReturned", want: invalidCall("tx"), run: func(w *badWorld) error {
			var kept pgx.Tx
			require.ErrorIs(w.t, w.do(func(ctx context.Context, tx pgx.Tx) error { kept = tx; return errOwn }), errOwn)
			return doTx(w, kept)
		}},
		{name: "TxReadOnly", want: state("25006"), run: func(w *badWorld) error {
			tx, err := w.pool.BeginTx(w.ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
			require.NoError(w.t, err)
			defer tx.Rollback(w.ctx)
			return doTx(w, tx)
		}},
		{name: "TxEffectLeavesRowsOpen", want: is(dedup.ErrTxBusy), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), step(func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Query(ctx, "SELECT generate_series(1, 1000)")
					return err
				}).effect())
				return err
			})
		}},
		{name: "TxContextEndedBefore", want: is(context.Canceled), run: func(w *badWorld) error {
			// The first call of a Deduper looks at the table.
			require.NoError(w.t, w.inTx(func(tx pgx.Tx) error {
				_, err := dedup.DoTx(w.ctx, w.d, tx, call("another"), effect("another"))
				return err
			}))
			return w.inTx(func(tx pgx.Tx) error {
				ctx, cancel := context.WithCancel(w.ctx)
				cancel()
				_, err := dedup.DoTx(ctx, w.d, tx, call("k"), effect("k"))
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxContextEndedInEffect", want: is(context.Canceled), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				ctx, cancel := context.WithCancel(w.ctx)
				_, err := dedup.DoTx(ctx, w.d, tx, call("k"), step(func(ctx context.Context, tx pgx.Tx) error { cancel(); return ctx.Err() }).effect())
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxContextEndedAfterEffect", want: is(context.Canceled), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				ctx, cancel := context.WithCancel(w.ctx)
				_, err := dedup.DoTx(ctx, w.d, tx, call("k"), step(func(ctx context.Context, tx pgx.Tx) error { cancel(); return nil }).effect())
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxRolledBackByCaller", want: fine, run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { return doTx(w, tx) })
		}},
	}
}

func badContexts() []badRow {
	// within runs the call and cancels its context when signal closes.
	within := func(w *badWorld, signal <-chan struct{}, s step) error {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		answer := make(chan error, 1)
		go func() { answer <- w.doCtx(ctx, s) }()
		select {
		case <-signal:
		case err := <-answer:
			require.FailNow(w.t, "the call returned early", "%v", err)
		}
		cancel()
		return <-answer
	}
	nothing := func(context.Context, pgx.Tx) error { return nil }
	held := func(kind faultproxy.Kind, where func(faultproxy.Unit) bool) func(w *badWorld) error {
		return func(w *badWorld) error {
			armed := w.proxy.Arm(faultproxy.Fault{Kind: kind, Where: where})
			defer armed.Release()
			return within(w, armed.Applied(), nothing)
		}
	}
	unknown := func(t *testing.T, err error) {
		t.Helper()
		var outcome *dedup.OutcomeUnknownError
		require.ErrorAs(t, err, &outcome)
		require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, dedup.IsRetryable(err))
	}
	cause := errors.New("the reason")
	return []badRow{
		{name: "CancelledBefore", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			cancel()
			return w.doCtx(ctx, nothing)
		}},
		{name: "CancelledBeforeWithCause", want: is(context.Canceled, cause), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancelCause(w.ctx)
			cancel(cause)
			return w.doCtx(ctx, nothing)
		}},
		{name: "DeadlineBefore", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			ctx, cancel := context.WithDeadline(w.ctx, time.Now())
			defer cancel()
			return w.doCtx(ctx, nothing)
		}},
		{name: "CancelledInAcquire", want: is(context.Canceled), run: func(w *badWorld) error {
			for range w.pool.Config().MaxConns {
				conn, err := w.pool.Acquire(w.ctx)
				require.NoError(w.t, err)
				defer conn.Release()
			}
			ctx, cancel := context.WithCancel(w.ctx)
			w.traced.waiting = cancel
			err := w.doCtx(ctx, nothing)
			w.traced.waiting = nil
			return err
		}},
		{name: "DeadlineInAcquire", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			for range w.pool.Config().MaxConns {
				conn, err := w.pool.Acquire(w.ctx)
				require.NoError(w.t, err)
				defer conn.Release()
			}
			ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
			defer cancel()
			return w.doCtx(ctx, nothing)
		}},
		{name: "CancelledInOpen", proxied: true, want: is(context.Canceled), run: held(faultproxy.Hold, faultproxy.AtSQL("pg_try_advisory_xact_lock"))},
		{name: "CancelledAfterOpen", proxied: true, want: is(context.Canceled), run: held(faultproxy.ReplyDelayed, faultproxy.AtSQL("pg_try_advisory_xact_lock"))},
		{name: "CancelledInStatement", proxied: true, want: is(context.Canceled), run: held(faultproxy.Hold, faultproxy.AtSQL("insert into effects"))},
		{name: "CancelledAfterStatement", proxied: true, want: is(context.Canceled), run: held(faultproxy.ReplyDelayed, faultproxy.AtSQL("insert into effects"))},
		{name: "CancelledInEffect", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				cancel()
				_, err := tx.Exec(ctx, "SELECT 1")
				return err
			})
		}},
		{name: "CancelledInEffectOwnError", want: is(context.Canceled, errOwn), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(context.Context, pgx.Tx) error { cancel(); return errOwn })
		}},
		{name: "CancelledInEffectFinal", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(context.Context, pgx.Tx) error { cancel(); return dedup.Final(errOwn) })
		}},
		{name: "CancelledBeforeCommit", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(context.Context, pgx.Tx) error { cancel(); return nil })
		}},
		{name: "DeadlineInEffect", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
			defer cancel()
			return w.doCtx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
				return err
			})
		}},
		{name: "OwnDeadlineInEffect", opts: dedup.Options{StoreErrors: true}, want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				ctx, cancel := context.WithDeadline(ctx, time.Now())
				defer cancel()
				_, err := tx.Exec(ctx, "SELECT 1")
				return err
			})
		}},
		// A COMMIT that has been sent is finished.
		{name: "CancelledInCommit", proxied: true, want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			armed := w.proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtCommit})
			ctx, cancel := context.WithCancel(w.ctx)
			answer := make(chan error, 1)
			go func() { answer <- w.doCtx(ctx, nothing) }()
			require.NoError(w.t, armed.Wait(w.ctx))
			cancel()
			armed.Release()
			return <-answer
		}},
		{name: "CommitDropped", proxied: true, opts: dedup.Options{Retry: dedup.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}}, want: unknown,
			run: held(faultproxy.Dropped, faultproxy.AtCommit)},
		{name: "CommitNotAnsweredInTime", proxied: true, opts: dedup.Options{CommitTimeout: 200 * time.Millisecond}, want: unknown,
			records: 1, effects: 1, replays: true, run: held(faultproxy.Blackhole, faultproxy.AtCommit)},
		{name: "CommitAnswerLost", proxied: true, want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			w.proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
			result, err := dedup.Do(w.ctx, w.d, call("k"), step(nothing).effect())
			require.True(w.t, result.Recovered)
			return err
		}},
		{name: "CancelledWaiting", want: is(context.Canceled), records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.beside(func() error {
				ctx, cancel := context.WithCancel(w.ctx)
				w.traced.waiting = cancel // the twin looks from another Deduper
				defer func() { w.traced.waiting = nil }()
				_, err := dedup.Do(ctx, newDeduper(w.t, w.pool, nil), call("k"), effect("k"))
				return err
			})
		}},
		{name: "InFlight", want: is(dedup.ErrInFlight), records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.beside(func() error {
				c := call("k")
				c.MaxWait = -1
				is(dedup.ErrInFlight)(w.t, w.inTx(func(tx pgx.Tx) error {
					_, err := dedup.DoTx(w.ctx, w.d, tx, c, effect("k"))
					w.requireUsable(tx)
					return err
				}))
				return w.doWith(c)
			})
		}},
	}
}

// beside runs f while a twin of its call is in its effect, and lets the twin
// come to its end afterwards.
func (w *badWorld) beside(f func() error) error {
	entered, leave, answer := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		answer <- w.do(func(context.Context, pgx.Tx) error { close(entered); <-leave; return nil })
	}()
	<-entered
	err := caught(f)
	close(leave)
	require.NoError(w.t, <-answer)
	return err
}

// badSessions do to the session or the schema what an effect should not.
func badSessions() (rows []badRow) {
	add := func(row badRow, s step) {
		row.run = func(w *badWorld) error { return w.do(s) }
		rows = append(rows, row)
	}
	sql := func(text string) step {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, text); return err }
	}
	stored := func(name, text string) {
		add(badRow{name: name, want: fine, records: 1, effects: 1, replays: true}, sql(text))
	}
	stored("TempTableShadows", "CREATE TEMP TABLE tool_dedup (LIKE public.tool_dedup INCLUDING ALL)")
	stored("TempViewShadows", "CREATE TEMP VIEW tool_dedup AS SELECT 1 AS scope")
	stored("SearchPath", "SET search_path = pg_temp, pg_catalog")
	stored("SearchPathElsewhere", "CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.tool_dedup (LIKE public.tool_dedup INCLUDING ALL); SET LOCAL search_path = elsewhere")
	stored("FunctionsShadowed", "CREATE SCHEMA elsewhere; CREATE FUNCTION elsewhere.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT 'epoch'::timestamptz$$; SET LOCAL search_path = elsewhere, pg_catalog, public")
	stored("ReplicationRole", "SET LOCAL session_replication_role = replica")
	stored("TimeZoneAndDateStyle", "SET LOCAL TimeZone = 'Asia/Kathmandu'; SET LOCAL DateStyle = 'German'; SET LOCAL IntervalStyle = 'sql_standard'")
	stored("ResetAll", "RESET ALL")
	stored("SavepointLeftOpen", "SAVEPOINT a; SAVEPOINT a; ROLLBACK TO a")
	stored("OwnAdvisoryUnlock", "SELECT pg_advisory_unlock_all()")

	add(badRow{name: "SetRole", want: state("42501")}, sql("SET ROLE pg_monitor"))
	add(badRow{name: "SetLocalRole", want: state("42501")}, sql("SET LOCAL ROLE pg_monitor"))
	add(badRow{name: "TableRenamed", want: state("42P01")}, sql("ALTER TABLE tool_dedup RENAME TO gone"))
	add(badRow{name: "TableDropped", want: state("42P01")}, sql("DROP TABLE tool_dedup"))
	add(badRow{name: "DeferredConstraint", want: state("23505")}, sql("CREATE TABLE u (a int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO u VALUES (1), (1)"))
	add(badRow{name: "WritesOwnRecord", want: is(dedup.ErrConflict)}, sql(`INSERT INTO tool_dedup VALUES ('acme', 'create_ticket', 'k', decode(repeat('00', 32), 'hex'), NULL, 'done', '1', now(), now(), now())`))
	add(badRow{name: "RecordRedirected", want: state("0A000")}, sql("CREATE RULE r AS ON INSERT TO tool_dedup DO INSTEAD NOTHING"))
	add(badRow{name: "RecordSwallowed", want: is(dedup.ErrBroken), effects: 1, next: dedup.ErrArbiter}, sql(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
		CREATE TRIGGER no BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION no()`))
	add(badRow{name: "RecordRefused", want: state("P0001")}, sql(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$;
		CREATE TRIGGER no BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION no()`))

	twice := dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 2}}
	gaveUp := is(dedup.ErrAttemptsExhausted)
	add(badRow{name: "ReadOnly", opts: twice, want: gaveUp}, sql("SET TRANSACTION READ ONLY"))
	add(badRow{name: "BackendTerminated", opts: twice, want: gaveUp}, sql("SELECT pg_terminate_backend(pg_backend_pid())"))
	add(badRow{name: "BackendTerminatedSwallowed", opts: twice, want: gaveUp}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
		return nil
	})
	add(badRow{name: "ConnClosed", opts: twice, want: gaveUp}, func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) })
	add(badRow{name: "IdleTooLong", opts: dedup.Options{IdleTimeout: 250 * time.Millisecond}, want: state("25P03")}, func(ctx context.Context, tx pgx.Tx) error {
		return tx.Conn().PgConn().WaitForNotification(ctx) // the server speaks first, to end it
	})
	return rows
}
