package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// orderIn has every kind of argument. Its secrets hold "canary" in the tests.
type orderIn struct {
	Order  string         `json:"order"`
	Lines  []line         `json:"lines,omitempty"`
	Small  int8           `json:"small,omitempty"`
	Count  uint           `json:"count,omitempty"`
	Price  float32        `json:"price,omitempty"`
	Gift   bool           `json:"gift,omitempty"`
	When   time.Time      `json:"when,omitzero"`
	Pair   [2]int         `json:"pair,omitzero"`
	By     map[string]int `json:"by,omitempty"`
	Ptr    *int           `json:"ptr,omitempty"`
	Any    any            `json:"any,omitempty"`
	Number json.Number    `json:"number,omitempty"`
	Bytes  []byte         `json:"bytes,omitempty"`
	Card   *card          `json:"card,omitempty" dedup:"redact"`
	Note   string         `json:"note,omitempty" dedup:"ignore"`
}

type line struct {
	SKU string `json:"sku"`
	N   int    `json:"n"`
}

type card struct {
	Number string    `json:"number"`
	Until  time.Time `json:"until,omitzero"`
}

func TestMalformedArguments(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	ran := func(context.Context, pgx.Tx, orderIn) (string, error) {
		b.runs.Add(1)
		return "ok", nil
	}
	require.NoError(t, b.tools.Add(
		tool.Tool[orderIn, string]{Name: "write", Class: tool.Write, Run: ran},
		tool.Tool[orderIn, string]{Name: "read", Class: tool.ReadOnly, Run: ran},
		tool.Tool[orderIn, string]{Name: "set", Class: tool.Idempotent, Run: ran},
	))
	for _, tt := range []struct{ args, field, reason string }{
		// No object at all.
		{`null`, "order", "is missing"}, // as {}
		{``, "order", "is missing"},
		{`[]`, "", "must be an object and are of type array"},
		{`"canary"`, "", "must be an object and are of type string"},
		{`7`, "", "must be an object and are of type number"},
		{`true`, "", "must be an object and are of type bool"},
		// No JSON.
		{` `, "order", "is missing"},
		{`{`, "", "no quoted member name, at byte 1"},
		{`{"order":"canary"`, "", "no comma and no end of the object, at byte 17"},
		{`{"order":"canary",}`, "", "no quoted member name, at byte 18"},
		{`{'order':'canary'}`, "", "no quoted member name, at byte 1"},
		{`{order:"canary"}`, "", "no quoted member name, at byte 1"},
		{`{"order":"canary"} {}`, "", "more text after the JSON value, at byte 19"},
		{`{"order":canary}`, "", "no JSON value begins like this, at byte 9"},
		{`{"order":"canary","count":01}`, "", "a number with a leading zero, at byte 26"},
		{`{"order":"canary","price":NaN}`, "", "no JSON value begins like this"},
		{`{"order":"canary","price":+1}`, "", "no JSON value begins like this"},
		{"{\"order\":\"canary\n\"}", "", "a control character that is not escaped in a string"},
		{`{"order":"\canary"}`, "", "an unknown escape in a string"},
		{"{\"order\":\"canary\xff\"}", "", "not valid UTF-8"},
		{"\xef\xbb\xbf{\"order\":\"canary\"}", "", "no JSON value begins like this, at byte 0"},
		{`{"order":"canary"/**/}`, "", "no comma and no end of the object"},
		{`{"order":"x","any":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `}`, "", "nested more than 1000 deep"},
		// Names.
		{`{}`, "order", "is missing"},
		{`{"order":"a","canary2":"canary"}`, "canary2", "is unknown"},
		{`{"order":"a","":"canary"}`, `""`, "is unknown"},
		{`{"order":"a","a\nb":"canary"}`, `"a\nb"`, "is unknown"},
		{`{"Order":"canary"}`, "Order", "is unknown"},
		{`{"order":"a","NOTE":"canary"}`, "NOTE", "is unknown"},
		{`{"order":"a","order":"canary"}`, "order", "is given twice"},
		{`{"order":"a","\u006frder":"canary"}`, "order", "is given twice"},
		{`{"order":"a","note":"canary","note":"canary"}`, "note", "is given twice"},
		{`{"order":"a","lines":[{"sku":"canary","n":1,"extra":2}]}`, "lines[0].extra", "is unknown"},
		{`{"order":"a","lines":[{"sku":"a","n":1},{"sku":"canary"}]}`, "lines[1].n", "is missing"},
		{`{"order":"a","by":{"canary":1,"canary":2}}`, "by[…]", "is given twice"},
		{`{"order":"a","card":{"number":"canary","pin":1}}`, "card.pin", "is unknown"},
		{`{"order":"a","card":{}}`, "card.number", "is missing"},
		// Types.
		{`{"order":null}`, "order", "is null"},
		{`{"order":1234567}`, "order", "must be of type string and is of type number"},
		{`{"order":["canary"]}`, "order", "must be of type string and is of type array"},
		{`{"order":{"canary":1}}`, "order", "must be of type string and is of type object"},
		{`{"order":true}`, "order", "must be of type string and is of type boolean"},
		{`{"order":"a","lines":{}}`, "lines", "must be of type array and is of type object"},
		{`{"order":"a","lines":["canary"]}`, "lines[0]", "must be of type object and is of type string"},
		{`{"order":"a","lines":[null]}`, "lines[0]", "is null"},
		{`{"order":"a","lines":[{"sku":"a","n":"canary"}]}`, "lines[0].n", "must be of type integer and is of type string"},
		{`{"order":"a","small":128}`, "small", "does not fit int8"},
		{`{"order":"a","small":1.5}`, "small", "does not fit int8"},
		{`{"order":"a","small":1.28e2}`, "small", "does not fit int8"},
		{`{"order":"a","small":1e999999999999999999999}`, "small", "does not fit int8"},
		{`{"order":"a","small":1e-9223372036854775808}`, "small", "does not fit int8"},
		{`{"order":"a","small":1.0e-2147483648}`, "small", "does not fit int8"},
		{`{"order":"a","count":-1.0}`, "count", "does not fit uint"},
		{`{"order":"a","count":1844674407370955161.6e1}`, "count", "does not fit uint"},
		{`{"order":"a","number":"7"}`, "number", "must be of type number and is of type string"},
		{`{"order":"a","number":null}`, "number", "is null"},
		{`{"order":"a","count":-1}`, "count", "does not fit uint"},
		{`{"order":"a","count":18446744073709551616}`, "count", "does not fit uint"},
		{`{"order":"a","price":1e39}`, "price", "does not fit float32"},
		{`{"order":"a","gift":"canary"}`, "gift", "must be of type boolean and is of type string"},
		{`{"order":"a","gift":1}`, "gift", "must be of type boolean and is of type number"},
		{`{"order":"a","when":"canary"}`, "when", "cannot be read as time.Time"},
		{`{"order":"a","when":null}`, "when", "is null"},
		{`{"order":"a","pair":[1]}`, "pair", "must have 2 elements and has 1"},
		{`{"order":"a","pair":[1,2,3]}`, "pair", "must have 2 elements and has 3"},
		{`{"order":"a","by":{"canary":"canary"}}`, "by[…]", "must be of type integer and is of type string"},
		{`{"order":"a","by":[]}`, "by", "must be of type object and is of type array"},
		{`{"order":"a","ptr":"canary"}`, "ptr", "must be of type integer and is of type string"},
		{`{"order":"a","bytes":"canary!"}`, "bytes", "cannot be read as []uint8"},
		{`{"order":"a","card":"canary"}`, "card", "must be of type object and is of type string"},
		{`{"order":"a","card":{"number":4111}}`, "card.number", "must be of type string and is of type number"},
		{`{"order":"a","card":{"number":"canary","until":"canary"}}`, "card.until", "cannot be read as time.Time"},
		{`{"order":"a","any":1e2000000000}`, "any", "cannot be read as interface {}"},
		{`{"order":"a","note":7}`, "note", "must be of type string and is of type number"},
	} {
		for _, name := range []string{"write", "read", "set"} {
			err := b.fails(t, tool.Invocation{Scope: "acme", Key: "k", Tool: name, Args: json.RawMessage(tt.args)})
			var bad *tool.ArgumentError
			require.ErrorAs(t, err, &bad, "%.100s", tt.args)
			require.Equal(t, tt.field, bad.Field, "%.100s", tt.args)
			require.Contains(t, bad.Error(), tt.reason, "%.100s", tt.args)
			require.Equal(t, name, bad.Tool)
			for cause := err; cause != nil; cause = errors.Unwrap(cause) {
				require.NotContains(t, strings.ReplaceAll(cause.Error(), "canary2", ""), "canary", "%.100s", tt.args)
				require.NotContains(t, cause.Error(), "4111")
				require.NotContains(t, cause.Error(), "1234567")
			}
		}
	}
	// Arguments without a fingerprint are refused when the fingerprint is taken.
	for _, args := range []string{
		`{"order":"canary\ud800"}`,
		`{"order":"a","any":{"canary":1,"canary":2}}`,
		`{"order":"a","any":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`,
	} {
		var invalid *dedup.InvalidError
		err := b.fails(t, call("write", "k", args))
		require.ErrorAs(t, err, &invalid, "%.100s", args)
		require.Equal(t, "Args", invalid.Field)
		require.NotContains(t, err.Error(), "canary")
	}
	require.Zero(t, b.runs.Load())
	require.Zero(t, b.count(t, "tool_dedup"))
}

// The error of an argument's own UnmarshalJSON is in Err, unless the tool has a redacted field.
func TestCauseOfATypesOwn(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		When time.Time `json:"when"`
	}
	require.NoError(t, b.tools.Add(of[in]()))
	err := b.fails(t, call("t", "k", `{"when":"canary"}`))
	require.NotContains(t, err.Error(), "canary")
	var parse *time.ParseError
	require.ErrorAs(t, err, &parse)
}

// TestLongHostileArguments decodes arguments of every size up to the largest.
func TestLongHostileArguments(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type tree struct {
		Kids []tree         `json:"kids,omitempty"`
		By   map[string]int `json:"by,omitempty"`
		Note string         `json:"note,omitempty" dedup:"ignore"`
		Any  any            `json:"any,omitempty"`
	}
	require.NoError(t, b.tools.Add(of[tree]()))
	half := dedup.MaxArgsSize / 2
	var members strings.Builder
	for i := range 400_000 {
		if i > 0 {
			members.WriteByte(',')
		}
		members.WriteString(`"` + time.Duration(i).String() + `":1`)
	}
	for name, tt := range map[string]struct{ args, reason string }{
		"TooLong":      {`{"note":"` + strings.Repeat("x", dedup.MaxArgsSize) + `"}`, "is the most"},
		"LongNote":     {`{"note":"` + strings.Repeat("x", dedup.MaxArgsSize-20) + `"}`, ""},
		"LongList":     {`{"any":[` + strings.Repeat("1,", half/4) + `1]}`, ""},
		"LongKids":     {`{"kids":[` + strings.Repeat("{},", dedup.MaxArgsSize/12) + `{}]}`, ""},
		"WideMap":      {`{"by":{` + members.String() + `}}`, ""},
		"DeepKids":     {strings.Repeat(`{"kids":[`, 499) + strings.Repeat(`]}`, 499), ""},
		"TooDeepKids":  {strings.Repeat(`{"kids":[`, 4999) + `{"x":1}` + strings.Repeat(`]}`, 4999), "is unknown"},
		"UnknownName":  {`{"` + strings.Repeat("x", half) + `":1}`, "is unknown"},
		"EscapedQuote": {`{"note":"` + strings.Repeat(`\"`, half-20) + `"}`, ""},
		"Spaces":       {strings.Repeat(" ", half) + `{}` + strings.Repeat("\n", half-2), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.tools.Invoke(t.Context(), call("t", name, tt.args))
			if tt.reason == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.reason)
				require.Less(t, len(err.Error()), 1000)
			}
			// Quadratic time would take hours and exceed the tests' limit.
		})
	}
}
