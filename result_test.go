package dedup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/table"
)

type resultInner struct {
	At   time.Time `json:"at"`
	Tags []string  `json:"tags"`
}

type resultOuter struct {
	resultInner
	ID       int64             `json:"id"`
	Next     *resultOuter      `json:"next,omitempty"`
	Raw      json.RawMessage   `json:"raw"`
	Bytes    []byte            `json:"bytes"`
	Amount   *big.Int          `json:"amount"`
	Names    map[string]int    `json:"names"`
	Hidden   string            `json:"-"`
	Any      any               `json:"any"`
	Empty    map[string]string `json:"empty"`
	Duration time.Duration     `json:"duration"`
}

// shouted marshals itself.
type shouted string

func (s shouted) MarshalJSON() ([]byte, error) { return json.Marshal(strings.ToUpper(string(s))) }
func (s *shouted) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	*s = shouted(strings.ToLower(text))
	return err
}

type embedsMarshalerNamed struct {
	Value shouted          `json:"value"`
	Addr  netip.Addr       `json:"addr"`
	Float *big.Float       `json:"float"`
	Keys  map[shoutInt]int `json:"keys"`
}

type shoutInt int

func huge(text string) *big.Int {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		panic(text)
	}
	return n
}

func TestResultRoundTrip(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, err := New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)

	at := time.Date(2026, 2, 29, 23, 59, 59, 123456789, time.FixedZone("", 5*3600+45*60))
	number := 7
	outer := resultOuter{
		resultInner: resultInner{At: at, Tags: []string{"<b>", "\u2028", "é", "\x00", "commit;"}},
		ID:          math.MaxInt64, Next: &resultOuter{Raw: json.RawMessage("null")}, Raw: json.RawMessage(`{"b":1,"a":[2]}`), Bytes: []byte{0, 0xff},
		Amount: huge("123456789012345678901234567890"), Names: map[string]int{"": 1, "b": 2, "a": 3}, Any: "x", Duration: time.Hour,
	}

	same(t, ctx, d, "Struct", outer)
	same(t, ctx, d, "Pointer", &outer)
	same(t, ctx, d, "NilPointer", (*resultOuter)(nil))
	same(t, ctx, d, "PointerToPointer", &[]*int{&number, nil})
	same(t, ctx, d, "EmptyStruct", struct{}{})
	same(t, ctx, d, "Slice", []resultInner{{At: at}, {}})
	same(t, ctx, d, "NilSlice", []int(nil))
	same(t, ctx, d, "EmptySlice", []int{})
	same(t, ctx, d, "Array", [3]bool{true, false, true})
	same(t, ctx, d, "Bytes", []byte("\x00\xff"))
	same(t, ctx, d, "Map", map[string][]int{"a": {1}, "": nil})
	same(t, ctx, d, "NilMap", map[string]int(nil))
	same(t, ctx, d, "MapOfInts", map[int]string{-1: "a", 2: "b"})
	same(t, ctx, d, "String", "it's; a \x00 \u2028 <script> \U0001F600")
	same(t, ctx, d, "EmptyString", "")
	same(t, ctx, d, "MaxInt64", int64(math.MaxInt64))
	same(t, ctx, d, "MaxUint64", uint64(math.MaxUint64))
	same(t, ctx, d, "BeyondFloat", int64(9007199254740993))
	same(t, ctx, d, "Float", []float64{math.Pi, math.SmallestNonzeroFloat64, math.MaxFloat64, 1e21, math.Copysign(0, -1)})
	same(t, ctx, d, "BigInt", huge("9"+strings.Repeat("0", 400)))
	same(t, ctx, d, "Number", json.Number("12345678901234567890.5"))
	same(t, ctx, d, "Time", at)
	same(t, ctx, d, "Bool", false)
	same(t, ctx, d, "Nil", any(nil))
	same(t, ctx, d, "Any", any(map[string]any{"a": []any{1.5, nil, "x"}}))
	same(t, ctx, d, "Marshaler", shouted("hush"))
	same(t, ctx, d, "FieldMarshaler", embedsMarshalerNamed{Value: "hush", Addr: netip.MustParseAddr("::1"), Float: big.NewFloat(0.5), Keys: map[shoutInt]int{1: 2}})
	same(t, ctx, d, "Raw", json.RawMessage(" { \"b\" : 1.0,\n\t\"a\":\"\\u0041<&\\/\" , \"a\" : 1e400, \"s\":\"\\ud800\" }\r\n"))
	same(t, ctx, d, "RawScalar", json.RawMessage(`1.50`))
	same(t, ctx, d, "RawSlice", []json.RawMessage{json.RawMessage(`1.50`), json.RawMessage(`{"b":1,"a":2}`)})
	same(t, ctx, d, "PointerToRaw", &outer.Raw)
	same(t, ctx, d, "AlmostTooLarge", strings.Repeat("x", 1<<20-2))
	same(t, ctx, d, "DeeplyNested", json.RawMessage(strings.Repeat("[", 9_000)+strings.Repeat("]", 9_000)))

	// An embedded marshaler knows nothing of the fields beside it.
	t.Run("HiddenFields", func(t *testing.T) {
		t.Parallel()
		hidden := outer
		hidden.Hidden = "x"
		first, again := twice(t, ctx, d, hidden)
		require.Equal(t, outer, first.Value)
		require.Equal(t, outer, again.Value)
	})
	t.Run("Monotonic", func(t *testing.T) {
		t.Parallel()
		now := time.Now()
		first, again := twice(t, ctx, d, now)
		require.True(t, now.Equal(first.Value))
		require.Equal(t, first.Value, again.Value)
	})
	t.Run("ReplacementCharacter", func(t *testing.T) {
		t.Parallel()
		first, again := twice(t, ctx, d, "a\ufffdb")
		require.Equal(t, "a\ufffdb", first.Value)
		require.Equal(t, first.Value, again.Value)
	})
	t.Run("NilRawIsNull", func(t *testing.T) {
		t.Parallel()
		first, again := twice(t, ctx, d, json.RawMessage(nil))
		require.Equal(t, json.RawMessage("null"), first.Value)
		require.Equal(t, first.Value, again.Value)
	})
	t.Run("CallersDoNotShareValues", func(t *testing.T) {
		t.Parallel()
		first, again := twice(t, ctx, d, map[string]int{"a": 1})
		first.Value["a"] = 2
		require.Equal(t, 1, again.Value["a"])
	})
}

// twice calls, and calls again.
func twice[R any](t *testing.T, ctx context.Context, d *Deduper, value R) (first, again Result[R]) {
	t.Helper()
	c := Call{Scope: "s", Tool: "t", Key: KeyHash(t.Name())}
	effect := func(context.Context, pgx.Tx) (R, error) { return value, nil }
	first, err := Do(ctx, d, c, effect)
	require.NoError(t, err)
	require.False(t, first.Replayed)
	again, err = Do(ctx, d, c, effect)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	return first, again
}

func same[R any](t *testing.T, ctx context.Context, d *Deduper, name string, value R) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		first, again := twice(t, ctx, d, value)
		require.Equal(t, first.Value, again.Value)
		want, err := json.Marshal(value)
		if raw, ok := any(value).(json.RawMessage); ok {
			want, err = raw, nil
			require.Equal(t, value, first.Value)
		}
		require.NoError(t, err)
		status, err := d.Lookup(ctx, "s", "t", KeyHash(t.Name()))
		require.NoError(t, err)
		require.Equal(t, string(want), string(status.Result))
		if raw, ok := any(first.Value).(json.RawMessage); ok {
			require.Equal(t, string(want), string(raw))
			return
		}
		got, err := json.Marshal(first.Value)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	})
}

func TestReplayIntoAnotherType(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := pgtest.New(t).Pool(t)
	d, err := New(pool, nil)
	require.NoError(t, err)
	c := Call{Scope: "s", Tool: "t", Key: "k"}
	first, err := Do(ctx, d, c, func(context.Context, pgx.Tx) (map[string]string, error) {
		return map[string]string{"id": "secret"}, nil
	})
	require.NoError(t, err)
	type changed struct {
		ID int `json:"id"`
	}

	check := func(t *testing.T, result Result[changed], err error) {
		var bad *InvalidError
		require.ErrorAs(t, err, &bad)
		require.ErrorIs(t, err, ErrInvalid)
		require.Equal(t, "result", bad.What)
		require.Equal(t, `{"id":"secret"}`, string(bad.Stored))
		var typed *json.UnmarshalTypeError
		require.ErrorAs(t, err, &typed)
		require.NotContains(t, err.Error(), "secret")
		require.False(t, IsRetryable(err))
		require.True(t, result.Replayed)
		require.True(t, first.CreatedAt.Equal(result.CreatedAt))
	}
	never := func(context.Context, pgx.Tx) (changed, error) { panic("not run") }

	t.Run("Do", func(t *testing.T) {
		t.Parallel()
		result, err := Do(ctx, d, c, never)
		check(t, result, err)
	})
	t.Run("DoTx", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			result, err := DoTx(ctx, d, tx, c, never)
			check(t, result, err)
			_, err = tx.Exec(ctx, "SELECT 1")
			return err
		}))
	})
	t.Run("WiderTypeFits", func(t *testing.T) {
		t.Parallel()
		result, err := Do(ctx, d, c, func(context.Context, pgx.Tx) (json.RawMessage, error) { panic("not run") })
		require.NoError(t, err)
		require.Equal(t, `{"id":"secret"}`, string(result.Value))
	})
}

// quotes is a result whose methods' errors quote a value.
type quotes struct{}

func (quotes) MarshalJSON() ([]byte, error) { return nil, errors.New("no such card: 4111") }

func (*quotes) UnmarshalJSON([]byte) error { return errors.New("no such card: 4111") }

// TestResultErrorsDoNotTellTheValue: an invalid result's error names fields and types. Its cause,
// which may quote the value, is for errors.As.
func TestResultErrorsDoNotTellTheValue(t *testing.T) {
	t.Parallel()
	type small struct {
		Card int16 `json:"card"`
	}
	type at struct {
		Card time.Time `json:"card"`
	}
	type own struct {
		Card quotes `json:"card"`
	}
	ctx := t.Context()
	d, err := New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	record := func(key, stored string) Call {
		c := Call{Scope: "s", Tool: "t", Key: key}
		_, err := Do(ctx, d, c, func(context.Context, pgx.Tx) (json.RawMessage, error) { return json.RawMessage(stored), nil })
		require.NoError(t, err)
		return c
	}
	number, text := record("number", `{"card": 41114111}`), record("text", `{"card": "4111"}`)
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"Number": {second(Do(ctx, d, number, func(context.Context, pgx.Tx) (small, error) { panic("not run") })), `a JSON number is no int16 (field "card")`},
		"Time":   {second(Do(ctx, d, text, func(context.Context, pgx.Tx) (at, error) { panic("not run") })), "does not fit the caller's type"},
		"Reads":  {second(Do(ctx, d, text, func(context.Context, pgx.Tx) (own, error) { panic("not run") })), "does not fit the caller's type"},
		"Writes": {second(Do(ctx, d, Call{Scope: "s", Tool: "t", Key: "new"}, func(context.Context, pgx.Tx) (own, error) { return own{}, nil })), "error calling a method of dedup.quotes"},
		"Column": {second(DoStatement[small](ctx, d, Call{Scope: "s", Tool: "t", Key: "row"}, SQL(`SELECT 41114111::bigint AS card`))), `column 1, "card"`},
	} {
		var bad *InvalidError
		require.ErrorAs(t, c.err, &bad, name)
		require.Equal(t, "result", bad.What, name)
		require.ErrorContains(t, c.err, c.says, name)
		require.NotContains(t, c.err.Error(), "4111", name)
		require.ErrorContains(t, bad.Err, "4111", "%s: the caller can read the cause", name)
	}
}

// TestReplayIntoAnUnrelatedType: a stored object none of whose fields fit is an ErrInvalid.
func TestReplayIntoAnUnrelatedType(t *testing.T) {
	t.Parallel()

	type renamed struct{ NoteID int }
	type nested struct {
		Note struct{ ID int }
	}
	type partly struct {
		ID   int    `json:"id"`
		More string `json:"more"`
	}
	const stored = `{"id":0,"title":""}`
	refuses := func(err error) {
		t.Helper()
		var bad *InvalidError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, stored, string(bad.Stored))
	}
	_, err := decodeStored[renamed](stored)
	refuses(err)
	_, err = decodeStored[*renamed](stored)
	refuses(err)
	_, err = decodeStored[nested](stored)
	refuses(err)

	fits := func(err error) { t.Helper(); require.NoError(t, err) }
	_, err = decodeStored[partly](stored)
	fits(err)
	_, err = decodeStored[*partly](stored)
	fits(err)
	_, err = decodeStored[*partly]("null")
	fits(err)
	_, err = decodeStored[renamed]("{}")
	fits(err)
	_, err = decodeStored[struct{}](stored)
	fits(err) // an empty struct has no fields to miss
	_, err = decodeStored[ownDecoding](stored)
	fits(err)
	_, err = decodeStored[map[string]any](stored)
	fits(err)
}

type ownDecoding struct{ N int }

func (*ownDecoding) UnmarshalJSON([]byte) error { return nil }

func TestResultSize(t *testing.T) {
	t.Parallel()
	for _, size := range []int{minMaxResultBytes, 1 << 20} {
		text, err := encodeResult(strings.Repeat("x", size-2), size)
		require.NoError(t, err)
		require.Len(t, text, size)

		_, err = encodeResult(strings.Repeat("x", size-1), size)
		var bad *InvalidError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, InvalidError{What: "result", Reason: fmt.Sprintf("has %d bytes, and Options.MaxResultBytes allows %d; return a reference in its place, or raise the limit", size+1, size)}, *bad)
		require.NotContains(t, err.Error(), "xxx")

		_, err = encodeResult(json.RawMessage(strings.Repeat(" ", size)+"1"), size)
		require.ErrorAs(t, err, &bad)
		require.Contains(t, bad.Reason, "Options.MaxResultBytes")
	}
}

// FuzzResult checks that whatever encodes can be stored in Postgres and read back, and that no
// bytes panic.
func FuzzResult(f *testing.F) {
	for _, text := range []string{``, `null`, `{}`, `"a"`, `"\u0000"`, "\"\xff\"", "\"\x00\"", `"\ud800"`, ` [1.0, 1e400] `, `{"a":1,"a":2}`, `[[[[`, "1\x00", `{"message":"m","code":"c","details":{}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 16
		text, err := encodeResult(json.RawMessage(b), limit)
		if err == nil {
			require.True(t, utf8.Valid(text) && json.Valid(text) && !bytes.Contains(text, []byte{0}))
			if b != nil {
				require.Equal(t, string(b), string(text))
			}
			var back json.RawMessage
			err := decodeResult(text, &back)
			require.NoError(t, err)
			require.True(t, bytes.Equal(text, back))
		} else {
			require.ErrorIs(t, err, ErrInvalid)
			require.True(t, len(b) > limit || !json.Valid(b) || !utf8.Valid(b))
		}

		text, err = encodeResult(string(b), limit)
		if err == nil {
			var back string
			err := decodeResult(text, &back)
			require.NoError(t, err)
			require.Equal(t, string(b), back)
		} else {
			require.True(t, len(b) > limit/6 || !utf8.Valid(b)) // an escape takes six bytes
		}
		text, err = encodeResult(struct{ B []byte }{b}, limit)
		if err == nil {
			var back struct{ B []byte }
			err := decodeResult(text, &back)
			require.NoError(t, err)
			require.True(t, bytes.Equal(b, back.B))
		}

		// Hostile bytes in the table.
		if err := decodeResult(b, new(resultOuter)); err != nil {
			require.ErrorIs(t, err, ErrInvalid)
		}
		if err := decodeResult(b, new(map[string]any)); err != nil {
			require.ErrorIs(t, err, ErrInvalid)
		}
		if refused, err := decodeRefusal(string(b), time.Time{}); err != nil {
			require.ErrorIs(t, err, ErrInvalid)
		} else {
			require.ErrorIs(t, refused, ErrRefused)
		}
	})
}

func TestErrorOf(t *testing.T) {
	t.Parallel()
	own := errors.New("no such seat")
	book, outer := table.Identity{Scope: "acme", Tool: "book", Key: "k"}, table.Identity{Scope: "acme", Tool: "outer", Key: "k"}
	for _, err := range []error{nil, &RefusedError{Message: "dedup: sold out"}} {
		require.Equal(t, err, annotate(book, err))
	}
	for _, err := range []error{own, errors.New("dedup: no such seat"), fmt.Errorf("booking: %w", pgx.ErrNoRows)} { // the text does not say whose it is
		require.Same(t, err, annotate(book, byEffect(err)))
	}
	for _, answer := range callErrors() { // of another call
		require.NotErrorIs(t, annotate(book, byEffect(fmt.Errorf("booking: %w", answer))), answer)
		err := annotate(book, byEffect(&Error{Answer: answer, Err: own}))
		require.NotErrorIs(t, err, answer)
		require.ErrorIs(t, err, own)
		require.NotErrorAs(t, err, new(*Error))
		require.NotErrorAs(t, err, new(*RefusedError))
	}
	shared := &Error{Answer: ErrAttemptsExhausted, Attempts: 3, Err: own}
	for _, err := range []error{annotate(book, shared)} {
		require.Same(t, err, annotate(outer, err))
		require.Contains(t, err.Error(), `tool "book"`)
	}
	require.Empty(t, shared.Tool, "it is the answer of other calls too")
	require.EqualError(t, annotate(book, shared), `dedup: tool "book": gave up after 3 attempts, nothing was committed (key `+KeyHash("k")+`): no such seat`)
	named := annotate(book, ErrInFlight)
	require.EqualError(t, named, `dedup: tool "book": a twin of this call is in flight; call again with the same key`)
	require.ErrorIs(t, named, ErrInFlight)
	require.Equal(t, named, annotate(outer, named))
	for _, tool := range []string{"", "a\nb"} {
		require.Equal(t, ErrInFlight, annotate(table.Identity{Tool: tool}, ErrInFlight))
		require.Empty(t, annotate(table.Identity{Tool: tool}, shared).(*Error).Tool)
	}
	var misuse *InvalidError
	require.ErrorAs(t, annotate(book, fmt.Errorf("%w (more)", guard.ErrTxControl)), &misuse)
	require.Equal(t, "effect", misuse.What)

	// An ended context and a fault that passes stay what they are, whatever lies behind the aborted
	// transaction.
	deadlock := fmt.Errorf("%w: %w", guard.ErrTxAborted, sqlError("40P01"))
	for _, err := range []error{deadlock, fmt.Errorf("dedup: before another attempt: %w: %w", context.DeadlineExceeded, deadlock)} {
		require.NotErrorAs(t, annotate(book, err), &misuse)
		require.True(t, IsRetryable(annotate(book, err)), err)
	}
}

// Every way to make a call names its tool in the library's errors.
func TestErrorsNameTheTool(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	d, err := New(pool, nil)
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	nowhere, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(nowhere.Close)
	away, err := New(nowhere, &Options{Retry: RetryPolicy{MaxAttempts: 1}})
	require.NoError(t, err)

	call := Call{Scope: "acme", Tool: "book", Key: "k"}
	badArgs, noKey := call, call
	badArgs.Args, noKey.Key = make(chan int), ""
	fine := func(context.Context, pgx.Tx) (int, error) { return 1, nil }
	do := func(ctx context.Context, d *Deduper, c Call, e Effect[int]) error {
		_, err := Do(ctx, d, c, e)
		return err
	}
	statement := func(ctx context.Context, d *Deduper, sql string) error {
		_, err := DoStatement[map[string]any](ctx, d, call, SQL(sql))
		return err
	}
	batch := func(ctx context.Context, d *Deduper, sql string) (err error) {
		calls := func(yield func(StatementCall) bool) { yield(StatementCall{call, SQL(sql)}) }
		for out := range DoBatch[map[string]any](ctx, d, calls, nil) {
			err = out.Err
		}
		return err
	}
	inTx := func(c Call, e Effect[int]) error {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		_, err = DoTx(t.Context(), d, tx, c, e)
		return err
	}
	for name, tc := range map[string]struct {
		err  error
		says string
	}{
		"NoKey":       {do(t.Context(), d, noKey, fine), `invalid call: Key is empty; make one`},
		"Args":        {do(t.Context(), d, badArgs, fine), `invalid call: Args cannot be encoded`},
		"NoEffect":    {do(t.Context(), d, call, nil), `invalid call: effect must not be nil`},
		"Ended":       {do(ended, d, call, fine), `context canceled`},
		"Unreachable": {do(t.Context(), away, call, fine), `gave up after 1 attempts`},
		"Result": {func() error {
			_, err := Do(t.Context(), d, call, func(context.Context, pgx.Tx) (chan int, error) { return make(chan int), nil })
			return err
		}(), `invalid result: the result cannot be encoded: `},
		"Nested":    {do(t.Context(), d, call, func(ctx context.Context, _ pgx.Tx) (int, error) { _, err := Do(ctx, d, call, fine); return 0, err }), `invalid call: ctx belongs to an effect`},
		"TxControl": {do(t.Context(), d, call, func(ctx context.Context, tx pgx.Tx) (int, error) { return 0, tx.Commit(ctx) }), `invalid effect: the effect cannot be committed: the transaction belongs to dedup`},
		"Swallows":  {do(t.Context(), d, call, func(ctx context.Context, tx pgx.Tx) (int, error) { _, _ = tx.Exec(ctx, `SELECT 1/0`); return 0, nil }), `the effect ignored a failed statement`},
		"Misuse":    {do(t.Context(), d, call, func(context.Context, pgx.Tx) (int, error) { return 0, invalidEffect(nil, "must not") }), `invalid effect: the effect must not`},
		"InTx":      {inTx(noKey, fine), `invalid call: Key is empty`},
		"InTxReentrant": {inTx(call, func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := DoTx(ctx, d, tx, call, fine)
			return 0, err
		}), `invalid call: ctx belongs to this call's own effect`},
		"StatementEnded":     {statement(ended, d, `SELECT 1 AS a`), `context canceled`},
		"BatchUnreachable":   {batch(t.Context(), away, `SELECT 1 AS a`), `gave up after 1 attempts`},
		"Lookup":             {second(d.Lookup(t.Context(), "acme", "book", "")), `invalid call: Key is empty`},
		"LookupUnreachable":  {second(away.Lookup(t.Context(), "acme", "book", "k")), `looking up: `},
		"ResetWithoutReason": {second(d.Reset(t.Context(), "acme", "book", "k", ResetOptions{})), `invalid call: Reason must say`},
		"ResetUnreachable":   {second(away.Reset(t.Context(), "acme", "book", "k", ResetOptions{Reason: "why"})), `changing the record: `},
	} {
		require.ErrorContains(t, tc.err, `dedup: tool "book": `+tc.says, name)
	}

	var misuse *InvalidError
	require.ErrorAs(t, do(t.Context(), d, call, func(ctx context.Context, tx pgx.Tx) (int, error) { return 0, fmt.Errorf("booking: %w", tx.Commit(ctx)) }), &misuse)
	require.Equal(t, "effect", misuse.What)

	own := errors.New("no such seat")
	require.Same(t, own, do(t.Context(), d, call, func(context.Context, pgx.Tx) (int, error) { return 0, own }))
}

func second[A any](_ A, err error) error { return err }
