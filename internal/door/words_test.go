package door_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

func TestWords(t *testing.T) {
	t.Parallel()
	w := door.Words{Arguments: "contents", Same: "with the same key", New: "make a new key", RetryAfter: time.Second}
	require.Equal(t, "The same call is still running. Wait 1 second, then call again with the same key: the answer is its result.", w.Text(door.Failure{Code: door.InFlight}))
	w.RetryAfter = time.Second + 1
	require.Contains(t, w.Text(door.Failure{Code: door.InFlight}), "Wait 2 seconds,")
	reused := door.Failure{Code: door.KeyReused, Record: &dedup.Error{CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)), Changed: []string{"a", "b\n"}}}
	require.Equal(t, `The key of this call was used before, at 2026-01-02T02:04:05Z, with other values of a, "b\n", and perhaps of more. `+
		"Nothing was done. If this is a retry, send the contents of the first time. If it is a new action, make a new key.", w.Text(reused))
	reused.Record.Changed = nil
	require.Contains(t, w.Text(reused), "with other contents. Nothing")
	expired := door.Failure{Code: door.Expired, Record: &dedup.Error{CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	require.Contains(t, w.Text(expired), "carried out at 2026-01-02T03:04:05Z, and its result was not kept. Nothing was done again.")
	expired.Record.ExpiredAt = expired.Record.CreatedAt.Add(time.Hour)
	require.Contains(t, w.Text(expired), "and its result is no longer kept.")
	expired.Record.Refused = true
	require.Equal(t, "This call was refused at 2026-01-02T03:04:05Z, and the answer is no longer kept. Nothing was done. If it is a new action, make a new key.", w.Text(expired))
	w.Keyless = true
	require.Contains(t, w.Text(door.Failure{Code: door.Unavailable}), "Calling again does no harm.")
}

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "plain", door.Name("plain"))
	require.Equal(t, `"\u00e9"`, door.Name("é"))
	require.Less(t, len(door.Name(strings.Repeat("x", 1000))), 110)
	require.Equal(t, strings.Repeat("a, ", 19)+"a and more", door.Names(strings.Split(strings.Repeat("a", 21), "")))
}

func TestTurn(t *testing.T) {
	t.Parallel()
	for _, bad := range []door.Turn{{}, {Session: "s"}, {Number: 1}, {Session: "s", Number: -1}, {Session: "s", Number: math.MaxInt32 + 1}} {
		require.False(t, bad.Valid(), bad)
	}
	turn := door.Turn{Session: "s", Number: 4}
	require.True(t, turn.Valid())
	key, err := turn.Key("book", []byte(`{"seat":1}`))
	require.NoError(t, err)
	want, err := dedup.KeyFromToolCallArgs("s", 4, "book", map[string]int{"seat": 1}, 0)
	require.NoError(t, err)
	require.Equal(t, want, key)
}

func TestDisclose(t *testing.T) {
	t.Parallel()
	own := dedup.RefusedError{Message: "sold out", Code: "sold_out", Details: []byte(`{"left":0}`)}
	shown, hidden := door.Disclose(&own)
	require.False(t, hidden)
	require.Equal(t, own, shown)
	shown, hidden = door.Disclose(&dedup.RefusedError{
		Message: `invalid input syntax for type integer: "ada@example.com"`, Code: "22P02", Details: []byte(`"ada"`), OfDatabase: true,
	})
	require.True(t, hidden)
	require.Equal(t, dedup.RefusedError{Message: door.HiddenRefusal, OfDatabase: true}, shown)
}
