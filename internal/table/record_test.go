package table

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/wire"
)

func TestRecordAges(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after              time.Duration
		expired, forgotten bool
	}{
		{after: 0}, {after: time.Hour - 1}, {after: time.Hour, expired: true}, {after: 2*time.Hour - 1, expired: true},
		{after: 2 * time.Hour, expired: true, forgotten: true},
	} {
		r := Record{CreatedAt: at, ExpiresAt: at.Add(time.Hour), ForgetAt: at.Add(2 * time.Hour), SeenAt: at.Add(c.after)}
		require.Equal(t, c.expired, r.Expired(), c.after)
		require.Equal(t, c.forgotten, r.Forgotten(), c.after)
		require.Equal(t, c.after, r.Age())
	}
}

// TestFill: a row is taken over as it was read, and one that no version has
// written is no answer.
func TestFill(t *testing.T) {
	t.Parallel()

	result, at := `{"id":7}`, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var results wire.Results
	room := &results.Room
	room.Bytes = [2][]byte{bytes.Repeat([]byte{7}, 32), {1, 255}}
	room.Maybe = &result
	for i := range room.Times {
		room.Times[i] = at.Add(time.Duration(i))
	}
	for _, known := range []Outcome{Done, Refused, Broken, claimed} {
		var r Record
		room.Text = string(known)
		require.NoError(t, r.fill(&results))
		require.Equal(t, Record{
			Fingerprint: [32]byte(room.Bytes[0]), ArgDigests: room.Bytes[1], Outcome: known, Result: result,
			CreatedAt: at, ExpiresAt: at.Add(1), ForgetAt: at.Add(2), SeenAt: at.Add(3),
		}, r)
	}

	room.Text, room.Maybe = "done", nil
	var tombstone Record
	require.NoError(t, tombstone.fill(&results))
	require.True(t, tombstone.Tombstone)

	room.Text = "settled"
	require.ErrorContains(t, new(Record).fill(&results), `outcome "settled"`)
	room.Text, room.Bytes[0] = "done", room.Bytes[0][1:]
	require.ErrorContains(t, new(Record).fill(&results), "31 bytes")
}
