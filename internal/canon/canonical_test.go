package canon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func requireInvalid(t *testing.T, err error, reason string) {
	t.Helper()
	var invalid *Error
	require.ErrorAs(t, err, &invalid)
	require.Contains(t, invalid.Reason, reason)
}

func canonicalOf(text string) (string, error) {
	c := newCanonicalizer()
	if err := c.run([]byte(text)); err != nil {
		return "", err
	}
	return string(c.out), nil
}

func requireCanonical(t *testing.T, text string) string {
	t.Helper()
	canonical, err := canonicalOf(text)
	require.NoError(t, err, "%.200q", text)
	return canonical
}

// golden reads vectors that were written by an independent implementation and never change.
func golden[T any](t testing.TB, name string) T {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var vectors T
	require.NoError(t, json.Unmarshal(text, &vectors))
	return vectors
}

type canonicalVector struct{ Text, Canonical string }

func TestCanonicalGolden(t *testing.T) {
	t.Parallel()

	vectors := golden[[]canonicalVector](t, "canonical.json")
	require.Greater(t, len(vectors), 40)
	for _, v := range vectors {
		require.Equal(t, v.Canonical, requireCanonical(t, v.Text), v.Text)
		require.Equal(t, v.Canonical, requireCanonical(t, v.Canonical), "not idempotent")
	}
}

func TestCanonicalAppends(t *testing.T) {
	t.Parallel()

	c := newCanonicalizer()
	c.out = append(c.out, "before "...)
	require.NoError(t, c.run([]byte(`{"b":{"d":1,"c":2},"a":[{"f":3,"e":4}]}`)))
	require.Equal(t, `before {"a":[{"e":4,"f":3}],"b":{"c":2,"d":1}}`, string(c.out))
}

func TestCanonicalRefuses(t *testing.T) {
	t.Parallel()

	for text, reason := range map[string]string{
		``:                          "end of text where a JSON value should be, at byte 0",
		` `:                         "at byte 1",
		`nul`:                       "no JSON value begins like this, at byte 0",
		`True`:                      "no JSON value begins like this",
		`NaN`:                       "no JSON value begins like this",
		`'a'`:                       "no JSON value begins like this",
		"\ufeff1":                   "no JSON value begins like this",
		`/* */1`:                    "no JSON value begins like this",
		`1 2`:                       "more text after the JSON value, at byte 2",
		`nullx`:                     "more text after the JSON value, at byte 4",
		`{}}`:                       "more text after the JSON value",
		`[1,]`:                      "no JSON value begins like this, at byte 3",
		`[1 2]`:                     "no comma and no end of the array, at byte 3",
		`[1`:                        "no comma and no end of the array, at byte 2",
		`[`:                         "end of text where a JSON value should be",
		`{`:                         "no quoted member name, at byte 1",
		`{"a":1,}`:                  "no quoted member name, at byte 7",
		`{a:1}`:                     "no quoted member name",
		`{"a" 1}`:                   "no colon after a member name, at byte 5",
		`{"a":1 "b":2}`:             "no comma and no end of the object, at byte 7",
		`{"a":}`:                    "no JSON value begins like this",
		`{"a":1,"a":1}`:             "a member name that the object already has, at byte 7",
		`{"b":1,"a":1,"b":1}`:       "a member name that the object already has, at byte 13",
		`{"b":1,"a":1,"b":1,"b":2}`: "a member name that the object already has, at byte 13",
		`{"a":1,"\u0061":1}`:        "a member name that the object already has, at byte 7",
		`{"x":{"é":1,"\u00E9":1}}`:  "a member name that the object already has",
		`{"":1,"":1}`:               "a member name that the object already has",
	} {
		_, err := canonicalOf(text)
		require.Error(t, err, text)
		requireInvalid(t, err, reason)
	}
}

func TestCanonicalKeepsDifferentValuesApart(t *testing.T) {
	t.Parallel()

	seen := map[string]string{}
	for _, text := range []string{
		`null`, `false`, `true`, `""`, `"null"`, `0`, `"0"`, `[]`, `{}`, `[[]]`, `[{}]`, `[null]`, `{"":null}`, `{"a":null}`,
		`1`, `-1`, `10`, `1e-2`, `1.1`, `11`, `9007199254740993`, `9007199254740992`, `0.1`, `0.10000000000000001`,
		`1e400`, `1e401`, `1e-400`, `[1,2]`, `[2,1]`, `[12]`, `["1,2"]`, `{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"a":{"b":1}}`,
		`"\u00e9"`, `"e\u0301"`, `"\ufffd"`, `"\u0000"`, `" "`, `"a"`, `"A"`, `"\\u0061"`, `"/"`, `"\\/"`, `{"a,b":1}`, `{"a":"1,\"b\":2"}`,
	} {
		canonical := requireCanonical(t, text)
		require.Empty(t, seen[canonical], "%s has the form of another", text)
		seen[canonical] = text
	}
}

func TestCanonicalNesting(t *testing.T) {
	t.Parallel()

	arrays := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	objects := func(n int) string { return strings.Repeat(`{"b":`, n) + "1" + strings.Repeat(`,"a":0}`, n) }

	require.Equal(t, arrays(MaxDepth), requireCanonical(t, arrays(MaxDepth)))
	require.Equal(t, strings.Repeat(`{"a":0,"b":`, MaxDepth)+"1"+strings.Repeat("}", MaxDepth), requireCanonical(t, objects(MaxDepth)))
	for _, text := range []string{arrays(MaxDepth + 1), objects(MaxDepth + 1), strings.Repeat("[", 1<<20)} {
		_, err := canonicalOf(text)
		requireInvalid(t, err, "arrays and objects nested more than 1000 deep, at byte ")
	}
	require.Equal(t, `[[],[],{}]`, requireCanonical(t, `[[],[],{}]`), "siblings do not nest")
}

func TestCanonicalSize(t *testing.T) {
	t.Parallel()

	limit := `"` + strings.Repeat("a", MaxSize-2) + `"`
	require.Equal(t, limit, requireCanonical(t, limit))
	_, err := canonicalOf(limit + " ")
	requireInvalid(t, err, "are 16777217 bytes of JSON, and 16777216 is the most")
}

// Hostile arguments of the largest size take about as long as harmless ones: no step is worse than
// n log n.
func TestCanonicalHostile(t *testing.T) {
	t.Parallel()

	const size = 2 << 20
	digits := strings.Repeat("7", size)
	wide := new(strings.Builder)
	for i := size / 12; i > 0; i-- {
		fmt.Fprintf(wide, `,"%x":0`, i)
	}
	for name, text := range map[string]string{
		"DeepAndUnsorted": strings.Repeat(`{"b":`, 900) + `"` + digits + `"` + strings.Repeat(`,"a":0}`, 900),
		"Wide":            "{" + wide.String()[1:] + "}",
		"LongNumber":      digits + "." + digits + "e-" + digits[:9],
		"Zeros":           "0." + strings.Repeat("0", size) + "1e" + strconv.Itoa(size),
		"Exponent":        "1e" + strings.Repeat("0", size) + "1",
		"Escapes":         `"` + strings.Repeat(`\u0061`, size/6) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canonical := requireCanonical(t, text)
			require.Equal(t, canonical, requireCanonical(t, canonical))
		})
	}
	require.Equal(t, "1e-1", requireCanonical(t, "0."+strings.Repeat("0", 1000)+"1e1000"))
}

// A value and any respelling of it have one form, and that form is the one a plain implementation
// over encoding/json and math/big gives.
func TestCanonicalProperties(t *testing.T) {
	t.Parallel()

	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		value := randomValue(r, 4)
		a, b := new(strings.Builder), new(strings.Builder)
		spell(r, a, value)
		spell(r, b, value)
		canonical := requireCanonical(t, a.String())
		require.Equal(t, canonical, requireCanonical(t, b.String()), "seed %d\n%s\n%s", seed, a, b)
		require.Equal(t, canonical, requireCanonical(t, canonical), "seed %d", seed)
		require.Equal(t, reference(value), canonical, "seed %d", seed)
		require.True(t, json.Valid([]byte(canonical)))
	}
}

func randomValue(r *rand.Rand, depth int) any {
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch r.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return json.Number(strconv.FormatInt(r.Int64()>>r.IntN(64)*int64(1-2*r.IntN(2)), 10))
	case 3:
		return json.Number(fmt.Sprintf("%d.%d", r.IntN(1000), r.IntN(1000)))
	case 4:
		return randomString(r)
	case 5:
		list := make([]any, r.IntN(5))
		for i := range list {
			list[i] = randomValue(r, depth-1)
		}
		return list
	default:
		object := map[string]any{}
		for range r.IntN(20) {
			object[randomString(r)] = randomValue(r, depth-1)
		}
		return object
	}
}

// spell writes value in one of the many ways that JSON has for it.
func spell(r *rand.Rand, b *strings.Builder, value any) {
	space := func() { b.WriteString([]string{"", "", " ", "\n\t", "\r"}[r.IntN(5)]) }
	text := func(s string) {
		b.WriteByte('"')
		for _, c := range s {
			switch {
			case c > 0xffff && r.IntN(2) == 0:
				fmt.Fprintf(b, `\u%04x\u%04X`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
			case c <= 0xffff && (c < ' ' || c == '"' || c == '\\' || r.IntN(3) == 0):
				fmt.Fprintf(b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], c)
			case c == '/' && r.IntN(2) == 0:
				b.WriteString(`\/`)
			default:
				b.WriteRune(c)
			}
		}
		b.WriteByte('"')
	}
	space()
	switch v := value.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		fmt.Fprint(b, v)
	case string:
		text(v)
	case json.Number:
		b.WriteString(respell(r, string(v)))
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(r, b, e)
		}
		space()
		b.WriteByte(']')
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			text(name)
			space()
			b.WriteByte(':')
			spell(r, b, v[name])
		}
		space()
		b.WriteByte('}')
	}
	space()
}

// reference is the canonical form, written for clarity and not for speed.
func reference(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return referenceString(v)
	case json.Number:
		return referenceNumber(string(v))
	case []any:
		elements := make([]string, len(v))
		for i, e := range v {
			elements[i] = reference(e)
		}
		return "[" + strings.Join(elements, ",") + "]"
	case map[string]any:
		var members []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			members = append(members, referenceString(name)+":"+reference(v[name]))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	panic(fmt.Sprintf("no JSON: %T", value))
}

// stricter are the refusals of texts that encoding/json takes.
var stricter = []string{"the object already has", "invalid UTF-8", "lone surrogate", "1000 deep", "exponent beyond"}

func FuzzCanonical(f *testing.F) {
	for _, v := range golden[[]canonicalVector](f, "canonical.json") {
		f.Add([]byte(v.Text))
	}
	for _, text := range []string{"", "[1,]", `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", "01", "1e1000000001", strings.Repeat("[", 1001)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		canonical, err := canonicalOf(string(text))
		require.Equal(t, before, text)
		if err != nil {
			if json.Valid(text) {
				known := slices.ContainsFunc(stricter, func(reason string) bool { return strings.Contains(err.Error(), reason) })
				require.True(t, known, "%q: %v", text, err)
			}
			return
		}
		require.True(t, json.Valid(text), "accepted %q", text)
		require.True(t, utf8.ValidString(canonical))
		again, err := canonicalOf(canonical)
		require.NoError(t, err)
		require.Equal(t, canonical, again)

		if len(text) > 2000 {
			return // the reference divides numbers digit by digit
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var value any
		require.NoError(t, decoder.Decode(&value))
		require.Equal(t, reference(value), canonical)
	})
}
