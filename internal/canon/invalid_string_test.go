package canon

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

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
			requireInvalid(t, err, "a string that is not valid UTF-8")
			require.NotContains(t, err.Error(), bad)
		})
	}

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
