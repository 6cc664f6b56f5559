package mcpdedup

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

func TestTakeMembers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ object, rest, a string }{
		{`{}`, `{}`, ``},
		{`{"b":1}`, `{"b":1}`, ``},
		{`{"a":"x"}`, `{}`, `"x"`},
		{`{"a":"x","b":9007199254740993.10}`, `{"b":9007199254740993.10}`, `"x"`},
		{` { "b" : [1, 2] , "a" : {"a":1} , "c":{"a":2} } `, `{"b":[1, 2],"c":{"a":2}}`, `{"a":1}`},
		{`{"\u0061":1,"\ud800":2,"B\u0000":3}`, `{"\ud800":2,"B\u0000":3}`, `1`},
		{`{"b":1,"b":2,"a":null}`, `{"b":1,"b":2}`, `null`},
		// The next reader refuses text that is not an object.
		{``, ``, ``}, {`null`, `null`, ``}, {`["a"]`, `["a"]`, ``}, {`{"a":1`, `{"a":1`, ``}, {"{\"a\":\"\xff\"}", "{\"a\":\"\xff\"}", ``},
		{`{"a":1}{}`, `{"a":1}{}`, ``},
	} {
		rest, members, err := takeMembers(json.RawMessage(c.object), "a", "z")
		require.NoError(t, err)
		require.Equal(t, c.rest, string(rest), c.object)
		require.Equal(t, c.a, string(members["a"]), c.object)
	}
	_, _, err := takeMembers(json.RawMessage(`{"a":1,"b":2,"\u0061":1}`), "a")
	require.ErrorContains(t, err, "twice")
}

// FuzzTakeMembers: the members that are taken and the rest together are the input.
func FuzzTakeMembers(f *testing.F) {
	for _, seed := range []string{`{"idempotencyKey":"k","confirm":true,"n":1e2}`, `{"a":{"idempotencyKey":1}}`, ` {"\u0069dempotencyKey" :"k" }`,
		`{"idempotencyKey":1,"idempotencyKey":2}`, `[]`, `null`, ``, `{"a":"\ud800","":[[[]]]}`, "{\"\xff\":1}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		rest, members, err := takeMembers(object, KeyArgument, "confirm")
		if err != nil || members == nil {
			if err == nil {
				require.Equal(t, string(object), string(rest))
			}
			return
		}
		var before, after map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(object, &before))
		require.NoError(t, json.Unmarshal(rest, &after))
		for name, value := range members {
			require.Equal(t, string(before[name]), string(value))
			require.NotContains(t, after, name)
			after[name] = value
		}
		require.Equal(t, before, after)
		again, none, err := takeMembers(rest, KeyArgument, "confirm")
		require.NoError(t, err)
		require.Empty(t, none)
		require.Equal(t, string(rest), string(again))
	})
}

// testdata/malformed.golden lists the JSON that is refused.
func TestClientKey(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"k", "1", "a b", "schlüssel", strings.Repeat("k", door.MaxKey), "🙂"} {
		key, err := clientKey(door.Turn{}, "here", "pay", good)
		require.NoError(t, err)
		require.Equal(t, good, key)
	}
	// As many characters as maxLength allows, and more bytes than package dedup does.
	for _, long := range []string{strings.Repeat("ü", 128), strings.Repeat("🙂", maxKeyLength)} {
		key, err := clientKey(door.Turn{}, "here", "pay", long)
		require.NoError(t, err)
		derived, err := dedup.KeyFromIntent(long)
		require.NoError(t, err)
		require.Equal(t, derived, key)
	}
	_, err := clientKey(door.Turn{}, "here", "pay", "\xff")
	require.ErrorContains(t, err, "The key here is not valid Unicode text.")
}
