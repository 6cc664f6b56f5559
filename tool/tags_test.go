package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// upper is a type with a MarshalText.
type upper struct{ s string }

func (u upper) MarshalText() ([]byte, error) {
	if u.s == "BAD" {
		return nil, errors.New("canary")
	}
	return []byte(u.s), nil
}

func (u *upper) UnmarshalText(text []byte) error {
	u.s = string(text)
	return nil
}

func TestKeyTags(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type nested struct {
		N int8 `json:"n" dedup:"key"`
	}
	type Embedded struct {
		E uint16 `json:"e" dedup:"key"`
	}
	require.NoError(t, b.tools.Add(
		of(func(d *tool.Tool[struct {
			Ref string `json:"ref" dedup:"key"`
		}, string]) {
			d.Name = "one"
		}),
		of(func(d *tool.Tool[struct {
			ID int `json:"id" dedup:"key"`
		}, string]) {
			d.Name = "int"
		}),
		of(func(d *tool.Tool[struct {
			A string `json:"a" dedup:"key"`
			B bool   `json:"b" dedup:"key"`
			S nested `json:"s"`
			Embedded
		}, string]) {
			d.Name = "several"
		}),
		of(func(d *tool.Tool[struct {
			U upper `json:"u" dedup:"key"`
		}, string]) {
			d.Name = "text"
		}),
	))
	intent := func(parts ...string) string {
		key, err := dedup.KeyFromIntent(parts...)
		require.NoError(t, err)
		return key
	}
	for _, tt := range []struct{ name, args, want string }{
		{"one", `{"ref":"order 17 \u00e9"}`, "order 17 é"},
		{"one", `{"ref":""}`, "fallback"},
		{"int", `{"id":0}`, intent("0")},
		{"int", `{"id":-7}`, intent("-7")},
		{"several", `{"a":"x","b":true,"s":{"n":3},"e":9}`, intent("x", "true", "3", "9")},
		{"several", `{"e":0,"b":false,"s":{"n":0},"a":"-"}`, intent("-", "false", "0", "0")},
		{"text", `{"u":"ABC"}`, intent("ABC")},
		{"text", `{"u":""}`, "fallback"},
	} {
		inv := call(tt.name, "fallback", tt.args)
		require.Equal(t, tt.want, b.invoke(t, inv).Key, tt.args)
	}
	info, _ := b.tools.Lookup("several")
	require.Equal(t, []string{"a", "b", "s.n", "e"}, info.Key)

	err := b.fails(t, call("text", "k", `{"u":"BAD"}`))
	require.EqualError(t, err, "tool: argument u of text cannot be part of a key")
	err = b.fails(t, call("several", "k", `{"a":"","b":true,"s":{"n":3},"e":9}`))
	require.EqualError(t, err, "tool: argument a of several is empty, and is the key together with others")
	var invalid *dedup.InvalidError
	require.ErrorAs(t, b.fails(t, call("one", "k", `{"ref":"a\u0000b"}`)), &invalid)
	require.Equal(t, "Key", invalid.Field)
	require.ErrorIs(t, b.fails(t, call("one", "", `{"ref":""}`)), dedup.ErrInvalid)
}

// Redacted and ignored arguments may differ at any place, and no trace of them is stored.
func TestIgnoredAndRedacted(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type inner struct {
		Keep  int    `json:"keep,omitempty"`
		Trace string `json:"trace,omitempty" dedup:"ignore"`
		PIN   string `json:"pin,omitempty" dedup:"redact"`
	}
	type Base struct {
		Token map[string]string `json:"token,omitempty" dedup:"redact"`
	}
	type rec struct {
		Inner inner  `json:"inner,omitzero"`
		Kids  []*rec `json:"kids,omitempty"`
	}
	type in struct {
		Base
		Order string           `json:"order"`
		One   inner            `json:"one,omitzero"`
		Ptr   *inner           `json:"ptr,omitempty"`
		List  []inner          `json:"list,omitempty"`
		By    map[string]inner `json:"by,omitempty"`
		Rec   *rec             `json:"rec,omitempty"`
		All   inner            `json:"all,omitzero" dedup:"ignore"`
	}
	require.NoError(t, b.tools.Add(of[in]()))
	info, _ := b.tools.Lookup("t")
	require.Equal(t, []string{"one.trace", "ptr.trace", "all", "all.trace"}, info.Ignored)
	require.Contains(t, info.Redacted, "token")

	const first = `{"order":"o"}`
	fingerprint := func(key, args string) dedup.Fingerprint {
		b.invoke(t, call("t", key, args))
		status, err := b.d.Lookup(t.Context(), "acme", "t", key)
		require.NoError(t, err)
		return status.Fingerprint
	}
	require.Equal(t, fingerprint("a", first), fingerprint("b", `{"token":{"x":"canary"},"order":"o","all":{"keep":4,"pin":"canary"}}`))
	for i, path := range []string{
		`{"order":"o","one":%}`, `{"order":"o","ptr":%}`, `{"order":"o","list":[%,{},%]}`, `{"order":"o","by":{"x":%}}`,
		`{"order":"o","rec":{"kids":[{"inner":%,"kids":[{"inner":%}]}]}}`,
	} {
		key := string(rune('c' + i))
		b.invoke(t, call("t", key, with(path, `{"keep":1}`)))
		for _, same := range []string{`{"pin":"canary","keep":1}`, `{"keep":1,"trace":"canary"}`, `{"trace":"","pin":"x", "keep":1, "pin\u0000":1}`} {
			answer, err := b.tools.Invoke(t.Context(), call("t", key, with(path, same)))
			var bad *tool.ArgumentError
			if errors.As(err, &bad) {
				require.Contains(t, same, `\u0000`)
				require.Contains(t, bad.Field, `"pin\x00"`)
				continue
			}
			require.NoError(t, err, same)
			require.True(t, answer.Replayed)
		}
		err := b.fails(t, call("t", key, with(path, `{"keep":2,"pin":"canary"}`)))
		require.ErrorIs(t, err, dedup.ErrKeyReused)
		require.NotContains(t, err.Error(), "canary")
		require.NotContains(t, err.Error(), "pin")
	}
	var stored int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM tool_dedup AS r WHERE r::text LIKE '%canary%'`).Scan(&stored))
	require.Zero(t, stored)

	// The digests cover the compared arguments only.
	var digests int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(DISTINCT octet_length(arg_digests)) FROM tool_dedup WHERE key IN ('a', 'b')`).Scan(&digests))
	require.Equal(t, 1, digests)
}

// The tool itself gets all the arguments.
func TestRunGetsWhatIsNotCompared(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		Note string `json:"note" dedup:"ignore"`
		Card string `json:"card" dedup:"redact"`
	}
	require.NoError(t, b.tools.Add(tool.Tool[in, string]{
		Name: "t", Class: tool.Write,
		Run: func(_ context.Context, _ pgx.Tx, in in) (string, error) { return in.Note + "/" + in.Card, nil },
	}))
	require.Equal(t, json.RawMessage(`"n/c"`), b.invoke(t, call("t", "k", `{"note":"n","card":"c"}`)).JSON)
}

// with replaces each % of a pattern by a text.
func with(pattern, text string) string {
	var out []byte
	for _, c := range []byte(pattern) {
		if c == '%' {
			out = append(out, text...)
			continue
		}
		out = append(out, c)
	}
	return string(out)
}
