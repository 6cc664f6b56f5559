package tool_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool"
)

// Every number that JSON Schema calls an integer is accepted at every place, and all spellings of
// it are one call.
func TestIntegersInEverySpelling(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		Small int8           `json:"small,omitempty"`
		Long  int64          `json:"long,omitempty"`
		Big   uint64         `json:"big,omitempty"`
		Ptr   *int           `json:"ptr,omitempty"`
		List  []uint16       `json:"list,omitempty"`
		By    map[string]int `json:"by,omitempty"`
		Note  string         `json:"note,omitempty" dedup:"ignore"`
	}
	var got in
	require.NoError(t, b.tools.Add(tool.Tool[in, string]{Name: "t", Class: tool.Write, Run: func(_ context.Context, _ pgx.Tx, i in) (string, error) {
		got = i
		return "ok", nil
	}}))
	seven := 7
	for _, tt := range []struct {
		plain  string
		others []string
		want   in
	}{
		{`{"small":1}`, []string{`{"small":1.0}`, `{"small":1e0}`, `{"small":10E-1}`, `{"note":"1.0","small":0.1e+1}`}, in{Small: 1}},
		{`{"small":-128}`, []string{`{"small":-1.28e2}`, `{"small": -128.000 }`}, in{Small: math.MinInt8}},
		{`{"long":-9223372036854775808}`, []string{`{"long":-9223372036854775.808e3}`}, in{Long: math.MinInt64}},
		{`{"big":18446744073709551615}`, []string{`{"big":18446744073709551615.0}`, `{"big":1.8446744073709551615e19}`}, in{Big: math.MaxUint64}},
		{`{"big":0}`, []string{`{"big":-0}`, `{"big":-0.0}`, `{"big":0e99999999999999999999}`}, in{}},
		{`{"ptr":7,"list":[100,0]}`, []string{`{"ptr":7.0,"list":[1e2,0.0]}`}, in{Ptr: &seven, List: []uint16{100, 0}}},
		{`{"by":{"1.0":20}}`, []string{`{"by":{"1.0":2.0e1}}`}, in{By: map[string]int{"1.0": 20}}},
	} {
		b.invoke(t, call("t", tt.plain, tt.plain))
		require.Equal(t, tt.want, got)
		for _, other := range tt.others {
			got = in{}
			require.False(t, b.invoke(t, call("t", other, other)).Replayed)
			got.Note = ""
			require.Equal(t, tt.want, got, other)
			require.True(t, b.invoke(t, call("t", tt.plain, other)).Replayed, other)
		}
	}
}

// A json.Number is a JSON number of any size, and keeps its spelling.
func TestNumberIsANumber(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		N json.Number `json:"n"`
	}
	require.NoError(t, b.tools.Add(tool.Tool[in, string]{Name: "t", Class: tool.Write, Run: func(_ context.Context, _ pgx.Tx, i in) (string, error) {
		return i.N.String(), nil
	}}))
	require.Equal(t, `"1.50e400"`, string(b.invoke(t, call("t", "k1", `{"n":1.50e400}`)).JSON))
	var bad *tool.ArgumentError
	require.ErrorAs(t, b.fails(t, call("t", "k2", `{"n":"1"}`)), &bad)
	require.Equal(t, "must be of type number and is of type string", bad.Reason)
}
