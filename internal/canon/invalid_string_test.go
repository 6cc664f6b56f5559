package canon

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

type (
	badText   struct{}
	badAppend struct{}
	embedded  struct{ Bad string }
	circular  struct {
		Text string
		Self *circular `json:"-"`
		Raw  json.RawMessage
	}
	marshalsItself struct{ hidden string }
	byPointer      struct{ hidden string }
)

func (badText) MarshalText() ([]byte, error)          { return []byte("\xff"), nil }
func (badAppend) MarshalText() ([]byte, error)        { return []byte("\ufffd"), nil }
func (badAppend) AppendText(b []byte) ([]byte, error) { return append(b, 0xff), nil }
func (m marshalsItself) MarshalJSON() ([]byte, error) { return json.Marshal("x" + m.hidden) }
func (m *byPointer) MarshalText() ([]byte, error)     { return []byte(m.hidden), nil }

const bad = "a\xffb"

// withInvalidString are values of which encoding/json turns bytes that are not valid UTF-8 into
// U+FFFD, so that two different calls, or results, would look the same.
func withInvalidString() map[string]any {
	return map[string]any{
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
		"MapKeys":         map[string]int{"a\xff": 1, "a\xfe": 2},
	}
}

func TestFingerprintRefusesInvalidStrings(t *testing.T) {
	t.Parallel()

	for name, args := range withInvalidString() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FingerprintOf(args)
			requireInvalid(t, err, "a string that is not valid UTF-8")
			require.NotContains(t, err.Error(), bad)
		})
	}
	_, err := FingerprintOf(badAppend{})
	require.Equal(t, callsAppendText(), err != nil, "refused where encoding/json writes it: %v", err)

	round := &circular{Text: "fine", Raw: json.RawMessage(`"\ufffd"`)}
	round.Self = round
	for name, args := range map[string]any{
		"Circle": round,
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

func TestEncodeRefusesInvalidStrings(t *testing.T) {
	t.Parallel()

	for name, result := range withInvalidString() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, escapeHTML := range []bool{true, false} {
				_, err := Encode(result, escapeHTML)
				require.ErrorContains(t, err, "a string that is not valid UTF-8")
				require.NotContains(t, err.Error(), bad)
			}
		})
	}
	text, err := Encode([]string{"\ufffd"}, true)
	require.NoError(t, err)
	require.JSONEq(t, `["\ufffd"]`, string(text))
}
