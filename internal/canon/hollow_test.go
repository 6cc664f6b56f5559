package canon

import (
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type (
	hidden struct{ n int }
	base   struct {
		ID int `json:"base,omitzero"`
	}
	other struct {
		ID int `json:"other,omitzero"`
	}
	writesNone struct{ n int }
	noneByRef  struct{ n int }
	appends    struct{ n int }
	ring       struct {
		*ring //nolint:unused // a type that embeds itself
		n     int
	}
)

func (writesNone) MarshalJSON() ([]byte, error)     { return []byte("{}"), nil }
func (*noneByRef) MarshalJSON() ([]byte, error)     { return []byte("{}"), nil }
func (appends) AppendText(b []byte) ([]byte, error) { return append(b, "x"...), nil }

// A struct of which nothing is ever written would make one call of all that hold it, and one
// result.
func TestHollowIsRefused(t *testing.T) {
	t.Parallel()

	pointer := &hidden{1}
	for name, tc := range map[string]struct {
		value    any
		asResult bool // Encode calls methods with pointer receivers
	}{
		"Unexported":       {hidden{1}, false},
		"Pointer":          {&hidden{1}, false},
		"PointerToPointer": {&pointer, false},
		"Error":            {errors.New("x"), false},
		"PointerReceiver":  {*big.NewInt(5), true},
		"NoneByReference":  {noneByRef{1}, true},
		"Skipped": {struct {
			N int `json:"-"`
			m int
		}{1, 2}, false},
		"SkippedEmbedded": {struct {
			base `json:"-"`
			n    int
		}{base{1}, 2}, false},
		"Embedded": {struct{ hidden }{hidden{1}}, false},
		"TwoMethods": {struct {
			time.Time
			big.Int
		}{}, false},
		"EmbedsItself": {ring{n: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FingerprintOf(tc.value)
			requireInvalid(t, err, "is encoded as {} whatever it holds")
			_, err = Encode(tc.value, true)
			if tc.asResult {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "is encoded as {} whatever it holds")
		})
	}
}

func TestHollowIsNot(t *testing.T) {
	t.Parallel()

	for name, value := range map[string]any{
		"EmptyStruct":   struct{}{},
		"NilPointer":    (*hidden)(nil),
		"WritesNone":    writesNone{1},
		"PointerWrites": &noneByRef{1},
		"OmitsZero":     struct{ base }{},
		"OmitsEmpty": struct {
			N int `json:",omitempty"`
		}{},
		"EmptyMap": map[string]int{},
		"NamedEmbedded": struct {
			time.Time `json:"at,omitzero"`
			big.Int   `json:"amount,omitzero"`
		}{},
		"OneGoName": struct {
			base
			other
		}{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FingerprintOf(value)
			require.NoError(t, err)
			_, err = Encode(value, true)
			require.NoError(t, err)
		})
	}
}

// A method counts where this release of Go calls it.
func TestHollowButForItsMethod(t *testing.T) {
	t.Parallel()

	got, err := FingerprintOf(appends{1})
	if !callsAppendText() {
		requireInvalid(t, err, "is encoded as {} whatever it holds")
		return
	}
	require.NoError(t, err)
	want, err := FingerprintOf(json.RawMessage(`"x"`))
	require.NoError(t, err)
	require.Equal(t, want, got)
}
