package dedup

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/table"
)

type keyVectors struct {
	ToolCall []struct {
		Session    string
		Turn       int
		ToolCallID string `json:"tool_call_id"`
		Key        string
	} `json:"tool_call"`
	ToolCallArgs []struct {
		Session, Tool, Args string
		Turn, Repeat        int
		Key                 string
	} `json:"tool_call_args"`
	Intent []struct {
		Parts []string
		Key   string
	}
	Args []struct{ Session, Args, Key string }
	Hash []struct{ Key, Hash string }
	// Values are arguments that are Go values, in goldenValues.
	Values []struct{ Name, Fingerprint, Key, Merging string }
}

func TestKeyGolden(t *testing.T) {
	t.Parallel()

	vectors := goldenKeys(t)
	seen := map[string]bool{}
	for _, v := range vectors.ToolCall {
		key, err := KeyFromToolCall(v.Session, v.Turn, v.ToolCallID)
		require.NoError(t, err)
		require.Equal(t, v.Key, key)
		require.False(t, seen[key])
		seen[key] = true
	}
	for _, v := range vectors.ToolCallArgs {
		key, err := KeyFromToolCallArgs(v.Session, v.Turn, v.Tool, json.RawMessage(v.Args), v.Repeat)
		require.NoError(t, err)
		require.Equal(t, v.Key, key)
		require.False(t, seen[key])
		seen[key] = true
	}
	for _, v := range vectors.Intent {
		key, err := KeyFromIntent(v.Parts...)
		require.NoError(t, err)
		require.Equal(t, v.Key, key)
		require.False(t, seen[key])
		seen[key] = true
	}
	for _, v := range vectors.Args {
		key, err := KeyFromArgsMergingRepeats(v.Session, json.RawMessage(v.Args))
		require.NoError(t, err)
		require.Equal(t, v.Key, key)
	}
	for _, v := range vectors.Hash {
		require.Equal(t, v.Hash, KeyHash(v.Key))
	}
	require.NotEmpty(t, vectors.ToolCall)
	require.NotEmpty(t, vectors.ToolCallArgs)
	require.NotEmpty(t, vectors.Intent)
	require.NotEmpty(t, vectors.Args)
	require.NotEmpty(t, vectors.Hash)
}

func TestKeyRefuses(t *testing.T) {
	t.Parallel()

	_, err := KeyFromToolCall("", 0, "id")
	requireInvalid(t, err, "Session", "is empty; give the conversation")
	_, err = KeyFromToolCall("s", -1, "id")
	requireInvalid(t, err, "Turn", "is negative; count")
	for _, id := range []string{"", "null", "None"} {
		_, err = KeyFromToolCall("s", 0, id)
		requireInvalid(t, err, "ToolCallID", "KeyFromToolCallArgs")
	}
	_, err = KeyFromToolCallArgs("", 0, "t", nil, 0)
	requireInvalid(t, err, "Session", "is empty; give the conversation")
	_, err = KeyFromToolCallArgs("s", -1, "t", nil, 0)
	requireInvalid(t, err, "Turn", "is negative; count")
	_, err = KeyFromToolCallArgs("s", 0, "", nil, 0)
	requireInvalid(t, err, "Tool", "is empty")
	_, err = KeyFromToolCallArgs("s", 0, "t", nil, -1)
	requireInvalid(t, err, "Repeat", "is negative")
	_, err = KeyFromToolCallArgs("s", 0, "t", json.RawMessage(`{`), 0)
	requireInvalid(t, err, "Args", "no quoted member name")
	_, err = KeyFromIntent()
	requireInvalid(t, err, "Parts", "are missing")
	_, err = KeyFromIntent("a", "", "b")
	requireInvalid(t, err, "Parts", "have an empty one at index 1")
	_, err = KeyFromArgsMergingRepeats("", 1)
	requireInvalid(t, err, "Session", "is empty")
	_, err = KeyFromArgsMergingRepeats("s", json.RawMessage(`{`))
	requireInvalid(t, err, "Args", "no quoted member name")
}

// What was not given is told by a field, not by the text of the error.
func TestMissing(t *testing.T) {
	t.Parallel()

	intent := func(parts ...string) error { _, err := KeyFromIntent(parts...); return err }
	call := func(session string, turn int, id string) error {
		_, err := KeyFromToolCall(session, turn, id)
		return err
	}
	_, noPool := New(nil, nil)
	for name, c := range map[string]struct {
		err     error
		missing bool
	}{
		"Scope":      {checkIdentity(table.Identity{Tool: "t", Key: "k"}), true},
		"Tool":       {checkIdentity(table.Identity{Scope: "s", Key: "k"}), true},
		"Key":        {checkIdentity(table.Identity{Scope: "s", Tool: "t"}), true},
		"BadKey":     {checkIdentity(table.Identity{Scope: "s", Tool: "t", Key: "\n"}), false},
		"Session":    {call("", 1, "id"), true},
		"ToolCallID": {call("s", 1, "null"), true},
		"Turn":       {call("s", -1, "id"), false},
		"NoParts":    {intent(), true},
		"EmptyPart":  {intent("a", ""), true},
		"Pool":       {noPool, true},
		"Tx":         {checkTx(t.Context(), nil), true},
	} {
		var invalid *InvalidError
		require.ErrorAs(t, c.err, &invalid, name)
		require.Equal(t, c.missing, invalid.Missing, name)
	}
}

func TestKeyFromArgsMergesRepeatsOnly(t *testing.T) {
	t.Parallel()

	keyOf := func(session, args string) string {
		key, err := KeyFromArgsMergingRepeats(session, json.RawMessage(args))
		require.NoError(t, err)
		return key
	}
	require.Equal(t, keyOf("s", `{"a":1,"b":2}`), keyOf("s", `{ "b": 2.0, "a": 1e0 }`))
	require.NotEqual(t, keyOf("s", `{"a":1}`), keyOf("s", `{"a":2}`))
	require.NotEqual(t, keyOf("s", `{"a":1}`), keyOf("t", `{"a":1}`))
}

func TestUsableToolCallID(t *testing.T) {
	t.Parallel()

	for _, id := range []string{"", "null", "None", "book_flight"} {
		require.False(t, UsableToolCallID(id, "book_flight"), id)
	}
	for _, id := range []string{"call_0", "0", "Null", "none", "undefined", "book_flight_0", "book", " "} {
		require.True(t, UsableToolCallID(id, "book_flight"), id)
	}
}

func TestNewKey(t *testing.T) {
	t.Parallel()

	form := regexp.MustCompile(`^ts1_[0-9a-v]{9}_[0-9A-Za-z_-]{22}$`)
	seen := map[string]bool{}
	for range 1000 {
		key := NewKey()
		require.Regexp(t, form, key)
		require.False(t, seen[key])
		require.NoError(t, validateName("Key", key))
		seen[key] = true
	}

	var keys []string
	for ms := range int64(1000) {
		keys = append(keys, newKeyAt(time.UnixMilli(1700000000000+ms)))
	}
	require.True(t, slices.IsSorted(keys), "later keys sort later")
	timed, err := TimedKey(time.UnixMilli(1700000000000), "x")
	require.NoError(t, err)
	require.Equal(t, timed[:len(timed)-1], keys[0][:len(timed)-1], "of one family with TimedKey")
}

// TestNewKeyIsRandom: each of the 128 random bits is drawn, and none is a copy of another.
func TestNewKeyIsRandom(t *testing.T) {
	t.Parallel()

	const keys = 64
	var columns [128]uint64 // bit i of all keys
	for k := range keys {
		key := NewKey()
		u, err := base64.RawURLEncoding.DecodeString(key[len(key)-22:])
		require.NoError(t, err)
		for i := range columns {
			columns[i] |= uint64(u[i/8]>>(7-i%8)&1) << k
		}
	}
	seen := map[uint64]int{0: -1, 1<<keys - 1: -1}
	for i, column := range columns {
		require.NotContains(t, seen, column, "bit %d", i)
		seen[column] = i
	}
}

//nolint:paralleltest // AllocsPerRun counts the whole process
func TestKeyAllocations(t *testing.T) {
	call := func() { _, _ = KeyFromToolCall("session-0123456789", 12, "call_0123456789") }
	require.LessOrEqual(t, testing.AllocsPerRun(100, call), 1.0)
	intent := func() { _, _ = KeyFromIntent("invoice", "2024-117", "send") }
	require.LessOrEqual(t, testing.AllocsPerRun(100, intent), 1.0)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { NewKey() }), 2.0)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { KeyHash("key") }), 1.0)
}

// FuzzKeyFromIntent cuts one text into parts in two ways: the keys are equal exactly if the parts
// are.
func FuzzKeyFromIntent(f *testing.F) {
	f.Add("abc", uint64(1), uint64(2))
	f.Add("a\x00\x00\x00\x00\x00\x00\x00\x01b", uint64(1), uint64(1<<8))
	f.Add("\x00\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x01b", uint64(0), uint64(1<<8))
	f.Add("aaaaaaaa", uint64(0x55), uint64(0xaa))
	f.Add("", uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, text string, cutsA, cutsB uint64) {
		if text == "" {
			return
		}
		a, b := cut(text, cutsA), cut(text, cutsB)
		keyA, err := KeyFromIntent(a...)
		require.NoError(t, err)
		keyB, err := KeyFromIntent(b...)
		require.NoError(t, err)
		require.Equal(t, slices.Equal(a, b), keyA == keyB, "%q %q", a, b)
		require.Equal(t, text, strings.Join(a, ""))

		if session := a[0]; len(a) == 3 && len(b) == 3 {
			keyA, errA := KeyFromToolCall(session, len(a[1]), a[2])
			keyB, errB := KeyFromToolCall(b[0], len(b[1]), b[2])
			require.NoError(t, errA)
			require.NoError(t, errB)
			require.Equal(t, session == b[0] && len(a[1]) == len(b[1]) && a[2] == b[2], keyA == keyB)
		}
	})
}

// cut cuts text after byte i where bit i of cuts is set.
func cut(text string, cuts uint64) (parts []string) {
	start := 0
	for i := 1; i < len(text) && i <= 64; i++ {
		if cuts>>(i-1)&1 == 1 {
			parts = append(parts, text[start:i])
			start = i
		}
	}
	return append(parts, text[start:])
}

// goldenKeys reads vectors that never change. Those of texts were written by an independent
// implementation, those of Go values by Go 1.26.
func goldenKeys(t testing.TB) (vectors keyVectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/key.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &vectors))
	return vectors
}

func TestTimedKey(t *testing.T) {
	t.Parallel()

	// A golden vector: a key that changed with a release would run an old intent again.
	at := time.Date(2026, 11, 21, 8, 30, 0, 123_456_789, time.UTC)
	key, err := TimedKey(at, "tc1_abc")
	require.NoError(t, err)
	require.Equal(t, "ts1_1k7ujk0tr_tc1_abc", key)
	require.Len(t, key, len("tc1_abc")+14)

	again, err := TimedKey(at.Truncate(time.Millisecond).In(time.FixedZone("", 3600)), "tc1_abc")
	require.NoError(t, err)
	require.Equal(t, key, again, "milliseconds, in any zone")

	// Keys sort as their times do, whatever is behind.
	var keys []string
	for _, d := range []time.Duration{0, time.Millisecond, time.Second, time.Hour, 24 * time.Hour, 40 * 365 * 24 * time.Hour} {
		key, err := TimedKey(at.Add(d), "z")
		require.NoError(t, err)
		keys = append(keys, key)
	}
	require.True(t, slices.IsSorted(keys), "%q", keys)
	last, err := TimedKey(time.UnixMilli(maxTimedKey), "k")
	require.NoError(t, err)
	require.Equal(t, "ts1_vvvvvvvvv_k", last)
	first, err := TimedKey(time.UnixMilli(0), "k")
	require.NoError(t, err)
	require.Equal(t, "ts1_000000000_k", first)
}

func TestTimedKeyRefused(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at    time.Time
		key   string
		field string
	}{
		"ZeroTime":  {time.Time{}, "k", "At"},
		"Before":    {time.UnixMilli(-1), "k", "At"},
		"After":     {time.UnixMilli(maxTimedKey + 1), "k", "At"},
		"NoKey":     {now, "", "Key"},
		"Control":   {now, "a\nb", "Key"},
		"LongKey":   {now, strings.Repeat("k", 256), "Key"},
		"LongTimed": {now, strings.Repeat("k", 242), "Key"},
	} {
		_, err := TimedKey(c.at, c.key)
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, c.field, invalid.Field, name)
	}
	_, err := TimedKey(now, strings.Repeat("k", 241))
	require.NoError(t, err)
}
