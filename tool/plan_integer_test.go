package tool_test

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
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

// A number that is no 64-bit integer is refused, in whichever spelling. The largest one would take
// minutes if the work grew faster than its text.
func TestNumbersThatAreNoInteger(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		N uint64 `json:"n"`
	}
	require.NoError(t, b.tools.Add(of[in]()))
	longest, nines, zeros := strings.Repeat("7", dedup.MaxArgsSize-100), strings.Repeat("9", 1<<20), strings.Repeat("0", 1<<20)
	for _, n := range []string{
		"0.5", "15e-1", "1e-2147483649", "-1", "18446744073709551616", "1.8446744073709551616e19", "1e20", "1e999999999", "1e99999999999999999999",
		longest, nines + "e9", "0." + nines, "1" + zeros, "0." + zeros + "1e2147483647",
	} {
		var bad *tool.ArgumentError
		require.ErrorAs(t, b.fails(t, call("t", "k", `{"n":`+n+`}`)), &bad)
		require.Equal(t, "n", bad.Field)
	}
	for _, n := range []string{"1." + zeros, "1" + zeros + "e-" + strconv.Itoa(len(zeros)), "0." + zeros + "1e" + strconv.Itoa(len(zeros)+1), "1", "1E+0"} {
		require.Equal(t, `"ok"`, string(b.invoke(t, call("t", "one", `{"n":`+n+`}`)).JSON))
	}
	require.Equal(t, 1, b.count(t, "tool_dedup"), "all spellings of 1 are one call")
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
