//go:build go1.27 && goexperiment.jsonv2

package tool_test

import (
	"encoding/json"
	"encoding/json/jsontext"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool"
)

// amount is a struct to Go and a number in JSON.
type amount struct{ Cents int64 }

// MarshalJSONTo implements json.MarshalerTo of encoding/json/v2.
func (a amount) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.Int(a.Cents))
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom of encoding/json/v2.
func (a *amount) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	token, err := d.ReadToken()
	if err == nil {
		a.Cents, err = token.Int()
	}
	return err
}

func TestTypesWithStreamMethods(t *testing.T) {
	t.Parallel()

	type in struct {
		Amount amount `json:"amount"`
	}
	i := tool.Info{In: reflect.TypeFor[in](), Out: reflect.TypeFor[in]()}
	for _, schema := range []func() (json.RawMessage, error){i.InputSchema, i.OutputSchema} {
		text, err := schema()
		require.NoError(t, err)
		require.Contains(t, string(text), `"amount":{}`, "a type that reads or writes its own JSON has any JSON")
	}
}
