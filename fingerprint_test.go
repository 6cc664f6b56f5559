package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFingerprintGolden(t *testing.T) {
	t.Parallel()

	vectors := golden[[]struct{ Text, Fingerprint string }](t, "fingerprint.json")
	require.Greater(t, len(vectors), 40)
	for _, v := range vectors {
		fp, err := FingerprintOf(json.RawMessage(v.Text))
		require.NoError(t, err)
		require.Equal(t, v.Fingerprint, fp.String(), v.Text)
	}
}

func TestFingerprintSpelledOut(t *testing.T) {
	t.Parallel()

	fp, err := FingerprintOf(json.RawMessage(` {"b": [true, 1.50], "a": "<é>"} `))
	require.NoError(t, err)
	canonical := `{"a":"<é>","b":[true,15e-1]}`
	require.Len(t, canonical, 29)
	require.Equal(t, sha256.Sum256([]byte("dedup/fingerprint/v1\x00\x00\x00\x00\x00\x00\x00\x1d"+canonical)), [32]byte(fp))
	require.Equal(t, hex.EncodeToString(fp[:]), fp.String())
}

type booking struct {
	To     string `json:"to"`
	Amount any    `json:"amount"`
	Note   string `json:"note,omitempty"`
}

func TestFingerprintOfGoValues(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name string
		args any
		text string
	}{
		{"Nil", nil, `null`},
		{"NilRawMessage", json.RawMessage(nil), `null`},
		{"NilPointer", (*booking)(nil), `null`},
		{"Struct", booking{To: "<a&b>\u2028", Amount: 12.5}, `{"amount":12.50,"to":"<a&b>\u2028"}`},
		{"Map", map[string]any{"to": "<a&b>\u2028", "amount": 12.5}, `{"amount":12.50,"to":"<a&b>\u2028"}`},
		{"BigInteger", map[string]int64{"n": 9007199254740993}, `{"n":9007199254740993}`},
		{"Float", 1e21, `1000000000000000000000`},
		{"MinusZero", math.Copysign(0, -1), `0`},
		{"Number", json.Number("1.00"), `1`},
		{"NestedRawMessage", map[string]json.RawMessage{"n": json.RawMessage(`9007199254740993.0`)}, `{"n":9007199254740993}`},
		{"NestedBytes", map[string][]byte{"b": {0xff}}, `{"b":"/w=="}`},
		{"Replacement", "\ufffd", `"\ufffd"`},
		{"EscapedReplacement", map[string]any{"r": json.RawMessage(`"\ufffd"`), "s": "fine"}, `{"r":"\ufffd","s":"fine"}`},
		{"LooksLikeTheEscape", `\ufffd`, `"\\ufffd"`},
		{"Time", time.Unix(0, 0).UTC(), `"1970-01-01T00:00:00Z"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			fp, err := FingerprintOf(tc.args)
			require.NoError(t, err)
			want, err := FingerprintOf(json.RawMessage(tc.text))
			require.NoError(t, err)
			require.Equal(t, want, fp)
		})
	}
}

type failing struct{}

var errFailing = errors.New("card 4111 refused")

func (failing) MarshalJSON() ([]byte, error) { return nil, errFailing }

func TestFingerprintRefuses(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		args   any
		reason string
	}{
		"Bytes":           {[]byte(`{}`), "are a []byte; convert"},
		"EmptyRawMessage": {json.RawMessage{}, "end of text where a JSON value should be, at byte 0"},
		"Channel":         {make(chan int), "cannot be encoded as JSON (*json.UnsupportedTypeError)"},
		"NaN":             {math.NaN(), "cannot be encoded as JSON (*json.UnsupportedValueError)"},
		"Method":          {failing{}, "cannot be encoded as JSON (*json.MarshalerError)"},
		"NestedDuplicate": {map[string]any{"x": json.RawMessage(`{"a":1,"a":2}`)}, "the object already has"},
		"NestedInvalid":   {map[string]any{"x": json.RawMessage("\"\xff\"")}, "invalid UTF-8"},
		"NestedSurrogate": {map[string]any{"x": json.RawMessage(`"\ud800"`)}, "lone surrogate"},
		"TooLarge":        {strings.Repeat("a", MaxArgsSize-1), "are 16777217 bytes of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FingerprintOf(tc.args)
			requireInvalid(t, err, "Args", tc.reason)
			_, parts, err := digest("s", "t", "k", tc.args)
			requireInvalid(t, err, "Args", tc.reason)
			require.Nil(t, parts)
		})
	}

	_, err := FingerprintOf(failing{})
	require.ErrorIs(t, err, errFailing)
	require.NotContains(t, err.Error(), "4111")
}

type (
	badText  struct{}
	embedded struct{ Bad string }
	circular struct {
		Text string
		Self *circular `json:"-"`
		Raw  json.RawMessage
	}
	marshalsItself struct{ hidden string }
	byPointer      struct{ hidden string }
)

func (badText) MarshalText() ([]byte, error)          { return []byte("\xff"), nil }
func (m marshalsItself) MarshalJSON() ([]byte, error) { return json.Marshal("x" + m.hidden) }
func (m *byPointer) MarshalText() ([]byte, error)     { return []byte(m.hidden), nil }

// encoding/json turns bytes that are no UTF-8 into U+FFFD, so that two
// different calls would look the same.
func TestFingerprintRefusesInvalidStrings(t *testing.T) {
	t.Parallel()

	const bad = "a\xffb"
	for name, args := range map[string]any{
		"String":          bad,
		"Pointer":         new(bad),
		"Slice":           []any{1, []string{"ok", bad}},
		"Array":           [1]string{bad},
		"MapKey":          map[string]int{bad: 1},
		"MapValue":        map[int]any{1: bad},
		"Struct":          booking{To: bad},
		"Interface":       booking{Amount: booking{Note: bad}},
		"Embedded":        struct{ embedded }{embedded{bad}},
		"Text":            badText{},
		"TextKey":         map[badText]int{{}: 1},
		"TextByPointer":   &byPointer{bad},
		"SelfMarshalling": []any{marshalsItself{bad}},
		"BesideAnEscape":  []any{json.RawMessage(`"\ufffd"`), bad},
		"SharedPointer":   func() any { p := &booking{To: bad}; return []any{p, p} }(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FingerprintOf(args)
			requireInvalid(t, err, "Args", "a string that is not valid UTF-8")
			require.NotContains(t, err.Error(), bad)
		})
	}

	round := &circular{Text: "fine", Raw: json.RawMessage(`"\ufffd"`)}
	round.Self = round
	for name, args := range map[string]any{
		"Circle":     round,
		"NotEncoded": struct{ hidden, Raw any }{bad, json.RawMessage(`"\ufffd"`)},
		"Skipped": struct {
			Bad string `json:"-"`
			Raw any
		}{bad, json.RawMessage(`"\ufffd"`)},
		"Nils": []any{nil, (*booking)(nil), (map[string]any)(nil), (*byPointer)(nil), json.RawMessage(`"\ufffd"`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FingerprintOf(args)
			require.NoError(t, err)
		})
	}
}

func TestPartsGolden(t *testing.T) {
	t.Parallel()

	vectors := golden[[]struct {
		Scope, Tool, Key, Args string
		Parts                  *string
	}](t, "parts.json")
	require.NotEmpty(t, vectors)
	for _, v := range vectors {
		fp, parts, err := digest(v.Scope, v.Tool, v.Key, json.RawMessage(v.Args))
		require.NoError(t, err)
		if v.Parts == nil {
			require.Nil(t, parts)
		} else {
			require.Equal(t, *v.Parts, hex.EncodeToString(parts), v.Args)
		}
		want, err := FingerprintOf(json.RawMessage(v.Args))
		require.NoError(t, err)
		require.Equal(t, want, fp)
	}
}

func TestPartsSpelledOut(t *testing.T) {
	t.Parallel()

	part := func(s string) string { return string(binary.BigEndian.AppendUint64(nil, uint64(len(s)))) + s }
	tag := func(name, value string) string {
		sum := sha256.Sum256([]byte("dedup/part/v1" + part("acme") + part("book") + part("k") + part(name) + part(value)))
		return string(sum[:4])
	}
	_, parts, err := digest("acme", "book", "k", json.RawMessage(`{"to":{"y":1,"x":[2.0]},"n\n":null}`))
	require.NoError(t, err)
	require.Equal(t, "\x01"+"\x02n\n"+tag("n\n", "null")+"\x02to"+tag("to", `{"x":[2],"y":1}`)+"\xff", string(parts))
}

func partsOf(t *testing.T, args any) []byte {
	t.Helper()
	_, parts, err := digest("acme", "book", "k", args)
	require.NoError(t, err)
	return parts
}

// numbered has n members named from the prefix, all with the same value.
func numbered(prefix string, n, value int) map[string]any {
	object := map[string]any{}
	for i := range n {
		object[fmt.Sprintf("%s%03d", prefix, i)] = value
	}
	return object
}

func TestChangedArgs(t *testing.T) {
	t.Parallel()

	raw := func(text string) any { return json.RawMessage(text) }
	with := func(object map[string]any, name string, value any) map[string]any {
		object[name] = value
		return object
	}
	long := strings.Repeat("n", 65)
	for name, tc := range map[string]struct {
		stored, now any
		names       []string
		complete    bool
	}{
		"Changed":             {raw(`{"a":1,"b":2,"c":3}`), raw(`{"a":1,"b":3,"c":3}`), []string{"b"}, true},
		"ChangedBelow":        {raw(`{"a":{"x":[1,2]}}`), raw(`{"a":{"x":[2,1]}}`), []string{"a"}, true},
		"Added":               {raw(`{"b":2}`), raw(`{"a":1,"b":2,"c":3}`), []string{"a", "c"}, true},
		"Removed":             {raw(`{"a":1,"b":2,"c":3}`), raw(`{"b":2}`), []string{"a", "c"}, true},
		"All":                 {raw(`{"a":1,"c":2}`), raw(`{"b":1,"d":2}`), []string{"a", "b", "c", "d"}, true},
		"FromEmpty":           {raw(`{}`), raw(`{"":0}`), []string{""}, true},
		"NullIsNotAbsent":     {raw(`{"a":null}`), raw(`{}`), []string{"a"}, true},
		"SpellingOnly":        {raw(`{"b":1.0,"a":"\u0041"}`), raw(`{"a":"A","b":1}`), nil, false},
		"NoObjectBefore":      {raw(`[1]`), raw(`{"a":1}`), nil, false},
		"NoObjectNow":         {raw(`{"a":1}`), nil, nil, false},
		"NeverAnObject":       {1, 2, nil, false},
		"LongNameChanged":     {map[string]any{long: 1}, map[string]any{long: 2}, nil, false},
		"BesideLongName":      {map[string]any{long: 1, "z": 1}, map[string]any{long: 2, "z": 2, "zz": 1}, []string{"z", "zz"}, false},
		"LongNameAdded":       {raw(`{"a":1}`), map[string]any{"a": 2, long: 2}, []string{"a"}, false},
		"SixtyFour":           {numbered("m", 64, 1), with(numbered("m", 64, 1), "m063", 2), []string{"m063"}, true},
		"BeyondTheCap":        {numbered("m", 65, 1), with(numbered("m", 65, 1), "m064", 2), nil, false},
		"CapReached":          {numbered("m", 64, 1), numbered("m", 65, 1), nil, false},
		"AddedBeforeTheCap":   {numbered("m", 70, 1), with(numbered("m", 70, 1), "a", 1), []string{"a"}, false},
		"RemovedBeforeTheCap": {with(numbered("m", 70, 1), "a", 1), numbered("m", 70, 1), []string{"a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names, complete := changedArgs(partsOf(t, tc.stored), partsOf(t, tc.now))
			require.Equal(t, tc.names, names)
			require.Equal(t, tc.complete, complete)
		})
	}
}

// Whatever two objects are, the names are right; and unless something was left
// out they are all there.
func TestChangedArgsProperties(t *testing.T) {
	t.Parallel()

	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 11))
		was, is := map[string]any{}, map[string]any{}
		for range r.IntN(130) {
			name := strings.Repeat("n", r.IntN(3)/2*r.IntN(70)) + fmt.Sprint(r.IntN(100))
			was[name], is[name] = 1, 1
			switch r.IntN(9) {
			case 0:
				delete(was, name)
			case 1:
				delete(is, name)
			case 2:
				is[name] = 2
			}
		}
		different := map[string]bool{}
		for name := range maps.Keys(was) {
			different[name] = is[name] != was[name]
		}
		for name := range maps.Keys(is) {
			different[name] = is[name] != was[name]
		}
		names, complete := changedArgs(partsOf(t, was), partsOf(t, is))
		require.True(t, slices.IsSorted(names))
		for _, name := range names {
			require.True(t, different[name], "seed %d: %q did not change", seed, name)
		}
		if complete {
			maps.DeleteFunc(different, func(_ string, changed bool) bool { return !changed })
			require.Equal(t, slices.Sorted(maps.Keys(different)), names, "seed %d", seed)
		}
	}
}

func TestPartsCannotBeComparedAcrossRecords(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}
	for _, id := range [][3]string{{"acme", "book", "k"}, {"acmeb", "ook", "k"}, {"acme", "bookk", ""}, {"acme", "book", "l"}, {"", "acmebook", "k"}} {
		_, parts, err := digest(id[0], id[1], id[2], json.RawMessage(`{"a":1,"b":1}`))
		require.NoError(t, err)
		for _, tag := range []string{string(parts[3:7]), string(parts[9:13])} {
			require.False(t, seen[tag])
			seen[tag] = true
		}
	}
}

func TestChangedArgsHostile(t *testing.T) {
	t.Parallel()

	good := partsOf(t, json.RawMessage(`{"a":1,"b":2}`))
	now := partsOf(t, json.RawMessage(`{"a":1,"b":3}`))
	tag := "\x00\x00\x00\x00"
	hostile := map[string]string{
		"Nil": "", "VersionOnly": "\x01", "OtherVersion": "\x02" + string(good[1:]), "Trailing": string(good) + "\xff",
		"UnknownEnd": "\x01\xfc", "HugeName": "\x01\x80\x80\x80\x80\x10\xff", "LongName": "\x01\x41" + strings.Repeat("n", 65) + tag + "\xff",
		"Unsorted": "\x01\x01b" + tag + "\x01a" + tag + "\xff", "Twice": "\x01\x01a" + tag + "\x01a" + tag + "\xff",
		"BadName": "\x01\x01\xff" + tag + "\xff", "CappedTooSoon": "\x01\x01a" + tag + "\xfd", "EmptyCapped": "\x01\xfd",
	}
	many := "\x01"
	for i := range 65 {
		many += fmt.Sprintf("\x03%03d", i) + tag
	}
	hostile["TooMany"] = many + "\xff"
	for i := range good {
		hostile[fmt.Sprintf("Cut%d", i)] = string(good[:i])
	}
	for name, stored := range hostile {
		for _, order := range [][2][]byte{{[]byte(stored), now}, {now, []byte(stored)}} {
			names, complete := changedArgs(order[0], order[1])
			require.Empty(t, names, name)
			require.False(t, complete, name)
		}
	}
}

func FuzzChangedArgs(f *testing.F) {
	for _, v := range golden[[]struct{ Parts *string }](f, "parts.json") {
		if v.Parts != nil {
			parts, err := hex.DecodeString(*v.Parts)
			require.NoError(f, err)
			f.Add(parts, []byte("\x01\x01a\x00\x00\x00\x00\xff"))
			f.Add(parts[:len(parts)/2], parts)
		}
	}
	f.Add([]byte("\x01\xfd"), []byte("\x01\xff"))
	f.Fuzz(func(t *testing.T, stored, now []byte) {
		names, complete := changedArgs(stored, now)
		back, backComplete := changedArgs(now, stored)
		require.Equal(t, names, back, "not symmetric")
		require.Equal(t, complete, backComplete)
		require.False(t, complete && len(names) == 0)
		require.LessOrEqual(t, len(names), 2*partsMax)
		require.True(t, slices.IsSorted(names))
		require.Equal(t, slices.Compact(slices.Clone(names)), names)
		for _, name := range names {
			require.LessOrEqual(t, len(name), partNameMax)
		}
		same, complete := changedArgs(stored, stored)
		require.Empty(t, same)
		require.False(t, complete)
	})
}

var smallArgs = json.RawMessage(`{"user_id":"mia_li_3668","flight":"HAT136","cabin":"economy","passengers":[{"first":"Mia","last":"Li","dob":"1990-04-05"}],"bags":2,"insurance":false}`)

func TestFingerprintAllocations(t *testing.T) {
	var args any = smallArgs
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = FingerprintOf(args) }), 1.0)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _, _ = digest("acme", "book", "k", args) }), 2.0)
}

func BenchmarkFingerprint(b *testing.B) {
	object := map[string]any{}
	if err := json.Unmarshal(smallArgs, &object); err != nil {
		b.Fatal(err)
	}
	sorted, err := json.Marshal(object)
	if err != nil {
		b.Fatal(err)
	}
	var large []any
	for i := range 2000 {
		large = append(large, map[string]any{"id": i, "name": "Köln \"am\" Rhein", "price": 12.5 * float64(i), "tags": []string{"a", "b"}})
	}
	largeText, err := json.Marshal(large)
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name string
		args any
		size int
	}{
		{"SmallUnsorted", smallArgs, len(smallArgs)},
		{"SmallSorted", json.RawMessage(sorted), len(sorted)},
		{"SmallStruct", booking{To: "mia_li_3668", Amount: 12.5, Note: "economy"}, 0},
		{"Large", json.RawMessage(largeText), len(largeText)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(bench.size))
			for b.Loop() {
				_, _ = FingerprintOf(bench.args)
			}
		})
	}
	b.Run("DigestSmallUnsorted", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = digest("acme", "book_flight", "tc1_Q14TQxBdWPGv-6jcoLtWlMCpQi-KtgQieWnsZKg6r7c", smallArgs)
		}
	})
}

func BenchmarkKey(b *testing.B) {
	b.Run("FromToolCall", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = KeyFromToolCall("session-0123456789", 12, "call_0123456789")
		}
	})
	b.Run("New", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewKey()
		}
	})
	b.Run("Validate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = validateName("Key", "tc1_Q14TQxBdWPGv-6jcoLtWlMCpQi-KtgQieWnsZKg6r7c")
		}
	})
}
