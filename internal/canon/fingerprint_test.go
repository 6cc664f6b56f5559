package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
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

func cyclicPointer() any {
	type ring struct{ Next *ring }
	r := &ring{}
	r.Next = &ring{r}
	return r
}

func cyclicMap() any {
	m := map[string]any{}
	m["m"] = []any{m}
	return m
}

func cyclicSlice() any {
	list := make([]any, 2)
	list[1] = list
	return list
}

func TestFingerprintRefuses(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		args   any
		reason string
	}{
		"Bytes":           {[]byte(`{}`), "are a []byte; convert"},
		"EmptyRawMessage": {json.RawMessage{}, "end of text where a JSON value should be, at byte 0"},
		"Channel":         {make(chan int), "cannot be encoded as JSON; unwrap"},
		"NaN":             {math.NaN(), "cannot be encoded as JSON; unwrap"},
		"Method":          {failing{}, "cannot be encoded as JSON; unwrap"},
		"CyclicPointer":   {cyclicPointer(), "cannot be encoded as JSON; unwrap"},
		"CyclicMap":       {cyclicMap(), "cannot be encoded as JSON; unwrap"},
		"CyclicSlice":     {cyclicSlice(), "cannot be encoded as JSON; unwrap"},
		"NestedDuplicate": {map[string]any{"x": json.RawMessage(`{"a":1,"a":2}`)}, "the object already has"},
		"NestedInvalid":   {map[string]any{"x": json.RawMessage("\"\xff\"")}, "invalid UTF-8"},
		"NestedSurrogate": {map[string]any{"x": json.RawMessage(`"\ud800"`)}, "lone surrogate"},
		"TooLarge":        {strings.Repeat("a", MaxSize-1), "are 16777217 bytes of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FingerprintOf(tc.args)
			requireInvalid(t, err, tc.reason)
			_, digests, err := Digest("s", "t", "k", tc.args)
			requireInvalid(t, err, tc.reason)
			require.Nil(t, digests)
		})
	}

	_, err := FingerprintOf(failing{})
	require.ErrorIs(t, err, errFailing)
	require.NotContains(t, err.Error(), "4111")
}

//nolint:paralleltest // AllocsPerRun counts the whole process
func TestFingerprintAllocations(t *testing.T) {
	var args any = json.RawMessage(`{"user_id":"mia_li_3668","flight":"HAT136","cabin":"economy","passengers":[{"first":"Mia","last":"Li","dob":"1990-04-05"}],"bags":2,"insurance":false}`)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = FingerprintOf(args) }), 1.0)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _, _ = Digest("acme", "book", "k", args) }), 2.0)
}
