package calls_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/exit"
)

// Keys are those that the library derives.
func TestKeys(t *testing.T) {
	t.Parallel()

	made := func(key string, err error) string {
		t.Helper()
		require.NoError(t, err)
		return key
	}
	args := map[string]int{"b": 1, "a": 2}
	at := time.Date(2026, 11, 21, 8, 30, 0, 123e6, time.UTC)
	for _, test := range []struct {
		want string
		args []string
	}{
		{made(dedup.KeyFromIntent("import", "m", "17")), []string{"intent", "import", "m", "17"}},
		{made(dedup.KeyFromToolCall("conversation 17", 4, "call_0")), []string{"tool-call", "conversation 17", "4", "call_0"}},
		{made(dedup.KeyFromToolCallArgs("s", 4, "add", args, 0)), []string{"tool-call-args", "s", "4", "add", `{"a": 2, "b": 1.0}`}},
		{made(dedup.KeyFromToolCallArgs("s", 4, "add", args, 2)), []string{"tool-call-args", "s", "4", "add", `{"a":2,"b":1}`, "--repeat", "2"}},
		{made(dedup.KeyFromArgsMergingRepeats("s", args)), []string{"args", "s", `{"a":2,"b":1}`}},
		{made(dedup.TimedKey(at, "order-7")), []string{"given", "order-7", "--at", "2026-11-21T08:30:00.123Z"}},
		{made(dedup.TimedKey(at, made(dedup.KeyFromIntent("a")))), []string{"intent", "a", "--at", "2026-11-21T09:30:00.123+01:00"}},
	} {
		require.Equal(t, outcome{exit.OK, test.want + "\n", ""}, run(t.Context(), append([]string{"key"}, test.args...)...), test.args)
	}

	got := run(t.Context(), "key", "given", "order-7", "--json")
	require.Equal(t, exit.OK, got.code)
	require.JSONEq(t, `{"key": "order-7", "key_hash": "`+dedup.KeyHash("order-7")+`"}`, got.out)
}
