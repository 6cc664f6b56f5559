package contract_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

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
		{"Scope", func(c *dedup.Call, v string) { c.Scope = v }, dedup.ErrInvalid},
		{"Tool", func(c *dedup.Call, v string) { c.Tool = v }, dedup.ErrInvalid},
		{"Key", func(c *dedup.Call, v string) { c.Key = v }, dedup.ErrInvalid},
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
				_, err = w.d.Reset(w.ctx, c.Scope, c.Tool, c.Key, dedup.ResetOptions{Reason: "test"})
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
			return onlyErr(w.d.Reset(none, "acme", "t", "k", dedup.ResetOptions{Reason: "test"}))
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
			return onlyErr(new(dedup.Deduper).Reset(w.ctx, "acme", "t", "k", dedup.ResetOptions{Reason: "test"}))
		}},
		{name: "NilDeduperLookup", want: invalidCall("d"), run: func(w *badWorld) error {
			var d *dedup.Deduper
			return onlyErr(d.Lookup(w.ctx, "acme", "t", "k"))
		}},
		{name: "NilEffect", want: invalidCall("effect"), run: func(w *badWorld) error {
			return onlyErr(dedup.Do[ticket](w.ctx, w.d, call("k"), nil))
		}},
		{name: "NilEffectTx", want: invalidCall("effect"), run: func(w *badWorld) error { return anyTx(w, w.d, w.ctx, nil) }},
		{name: "ResetWithoutReason", want: invalidCall("Reason"), run: func(w *badWorld) error {
			return onlyErr(w.d.Reset(w.ctx, "acme", "create_ticket", "k", dedup.ResetOptions{}))
		}},
	}
}

type failing struct{ err error }

func (f failing) MarshalJSON() ([]byte, error) { return nil, f.err }

type panicking struct{ value any }

func (p panicking) MarshalJSON() ([]byte, error) { panic(p.value) }

var errOwn = errors.New("the tool's own error")

func badArgs() (rows []badRow) {
	type ring struct {
		Next *ring `json:"next"`
		To   any   `json:"to"`
	}
	circle := &ring{}
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
	bad("NothingExported", struct{ n int }{42})
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
	bad("Circular", wideCircle())
	bad("TooDeep", raw(strings.Repeat("[", 1001)+strings.Repeat("]", 1001)))
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
	return rows
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
	bad("Order", "Order", dedup.Options{Order: "2"})
	bad("Isolation", "Isolation", dedup.Options{Isolation: pgx.ReadUncommitted})
	bad("Attempts", "Retry.MaxAttempts", dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: -1}})
	bad("SmallResults", "MaxResultBytes", dedup.Options{MaxResultBytes: 1})
	return append(rows,
		badRow{name: "OptionsNilPool", want: badOption("pool"), run: func(*badWorld) error {
			_, err := dedup.New(nil, nil)
			return err
		}},
		badRow{name: "OptionsForeignSchema", want: is(dedup.ErrSchema), run: func(w *badWorld) error {
			_, err := dedup.Do(w.ctx, newDeduper(w.t, w.pool, &dedup.Options{Schema: "nowhere"}), call("k"), effect("k"))
			return err
		}},
		badRow{name: "OptionsHostileSchema", want: is(dedup.ErrSchema), run: func(w *badWorld) error {
			d := newDeduper(w.t, w.pool, &dedup.Options{Schema: `public"; DROP TABLE tool_dedup; --`})
			_, err := dedup.Do(w.ctx, d, call("k"), effect("k"))
			return err
		}},
	)
}

// node is part of a graph.
type node struct {
	Name     string
	Parent   any
	Children []any
}

// wideCircle is a graph with so many ways around that no walk sees them all.
func wideCircle() *node {
	root := &node{Name: "root"}
	for _, name := range []string{"a", "b", "c"} {
		root.Children = append(root.Children, &node{Name: name, Parent: root, Children: []any{root, root}})
	}
	return root
}

// sharedBeyondMeasure is a graph without a circle whose text has 2^100 nodes.
func sharedBeyondMeasure() *node {
	root := &node{}
	for range 100 {
		root = &node{Parent: root, Children: []any{root}}
	}
	return root
}

// TestLongArgsSharedBeyondMeasure reads as much of it as arguments may have.
func TestLongArgsSharedBeyondMeasure(t *testing.T) {
	t.Parallel()
	_, err := dedup.FingerprintOf(sharedBeyondMeasure())
	invalidCall("Args")(t, err)
}

// oneWay encodes and does not decode.
type oneWay struct{}

func (oneWay) MarshalJSON() ([]byte, error)  { return []byte(`"x"`), nil }
func (*oneWay) UnmarshalJSON(b []byte) error { return errOwn }

func badResults() (rows []badRow) {
	rows = []badRow{
		returns("Channel", make(chan int), badResult("cannot be encoded")),
		returns("ChannelInAny", any(make(chan int)), badResult("cannot be encoded")),
		returns("NaN", math.NaN(), badResult("cannot be encoded")),
		returns("Inf", []float64{math.Inf(1)}, badResult("cannot be encoded")),
		returns("Func", func() {}, badResult("cannot be encoded")),
		returns("Complex", complex(1, 1), badResult("cannot be encoded")),
		returns("Oversized", strings.Repeat("x", 1<<20), badResult("Options.MaxResultBytes")),
		returns("OversizedRaw", json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`), badResult("Options.MaxResultBytes")),
		returns("RawInvalid", json.RawMessage(`{"a":`), badResult("is not valid")),
		returns("RawEmpty", json.RawMessage{}, badResult("is not valid")),
		returns("RawNotUTF8", json.RawMessage("\"\xff\""), badResult("is not valid")),
		returns("RawNUL", json.RawMessage("\"a\x00b\""), badResult("is not valid")),
		returns("RawInStruct", struct{ A json.RawMessage }{json.RawMessage(`{`)}, badResult("cannot be encoded")),
		returns("OneWay", oneWay{}, badResult("cannot be decoded", errOwn)),
		returns("Circular", wideCircle(), badResult("cannot be encoded")),
		returns("NotUTF8", []string{"a\xffb"}, badResult("cannot be encoded")),
		returns("NamesNotUTF8", map[string]any{"a\xff": 1, "a\xfe": 2}, badResult("cannot be encoded")),
		returns("Interface", fmt.Stringer(time.Second), badResult("cannot be decoded")),
		returns("MapOfInterfaces", map[string]error{"a": errOwn}, badResult("cannot be encoded")),
		returns("OutOfRangeInJSON", struct{ A *wide }{new(wide)}, badResult("cannot be decoded")),
		returns("NothingExported", struct{ n int }{42}, badResult("cannot be encoded")),
		returns("MarshalError", failing{errOwn}, badResult("cannot be encoded", errOwn)),
		returns("MarshalPanic", panicking{"result"}, panics("result")),
		returns("MarshalPanicError", panicking{errOwn}, panics(errOwn)),
	}
	shared := returns("SharedBeyondMeasure", sharedBeyondMeasure(), badResult("Options.MaxResultBytes"))
	shared.opts.MaxResultBytes = 8192
	nothing := returns("RawNil", json.RawMessage(nil), fine) // is null
	nothing.records, nothing.effects, nothing.replays = 1, 1, true
	return append(rows, shared, nothing)
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
