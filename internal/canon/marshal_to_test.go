//go:build go1.27 && goexperiment.jsonv2

package canon

import (
	"encoding/json/jsontext"
	"testing"

	"github.com/stretchr/testify/require"
)

type (
	marshalsTo      struct{ n int }
	marshalsToByRef struct{ text string }
)

// MarshalJSONTo implements json.MarshalerTo of encoding/json/v2.
func (marshalsTo) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteValue(jsontext.Value("{}"))
}

// MarshalJSONTo implements json.MarshalerTo of encoding/json/v2.
func (m *marshalsToByRef) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.String(m.text))
}

func TestMarshalJSONTo(t *testing.T) {
	t.Parallel()

	_, err := FingerprintOf(marshalsTo{1})
	require.NoError(t, err, "its method writes {}")
	_, err = FingerprintOf(marshalsToByRef{"x"})
	requireInvalid(t, err, "is encoded as {} whatever it holds")
	_, err = Encode(marshalsToByRef{"x"}, true)
	require.NoError(t, err)
	_, err = FingerprintOf(&marshalsToByRef{bad})
	requireInvalid(t, err, "a string that is not valid UTF-8")
}
