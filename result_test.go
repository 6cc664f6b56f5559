package dedup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
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
