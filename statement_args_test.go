package dedup

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type stringPointer *string

func TestKeptArgs(t *testing.T) {
	t.Parallel()
	text, number, at := "a", 1, time.Unix(1, 0)
	bytes, raw, list, nested := []byte("a"), json.RawMessage("1"), []int{1}, [][]byte{[]byte("a")}
	var noBytes []byte
	var noText *string
	args := []any{nil, "a", 1, &text, &number, &at, &bytes, stringPointer(&text), bytes, raw, list, nested, noBytes, noText}
	want := []any{nil, "a", 1, new("a"), new(1), new(time.Unix(1, 0)), new([]byte("a")), stringPointer(new("a")), []byte("a"), json.RawMessage("1"), []int{1}, [][]byte{[]byte("a")}, noBytes, noText}

	kept := keptArgs(args)
	require.Equal(t, want, kept)
	text, number, at, bytes[0], raw[0], list[0], nested[0][0] = "b", 2, time.Unix(2, 0), 'b', '2', 2, 'b'
	clear(args)
	require.Equal(t, want, kept)

	type shared struct{ n int }
	pointer, m := &shared{1}, map[string]int{"a": 1}
	kept = keptArgs([]any{pointer, m})
	pointer.n, m["a"] = 2, 2
	require.Equal(t, []any{&shared{2}, map[string]int{"a": 2}}, kept)
}
