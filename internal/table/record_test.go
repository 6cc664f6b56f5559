package table

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
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

// TestFill: a row is taken over as it was read, and one that no version has written is no answer.
func TestFill(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	row := Record{CreatedAt: at, ExpiresAt: at.Add(1), ForgetAt: at.Add(3), SeenAt: at.Add(2)}
	for _, known := range []Outcome{Done, Refused, Broken, claimed} {
		s := Seen{Record: row, result: pgtype.Text{String: `{"id":7}`, Valid: true}}
		s.Record.Outcome = known
		s.fill(&wire.Pipeline{})
		require.NoError(t, s.check(nil))
		require.True(t, s.Found)
		require.False(t, s.Forgotten)
		want := row
		want.Outcome, want.Result = known, `{"id":7}`
		require.Equal(t, want, s.Record)
	}

	tombstone := Seen{Record: row}
	tombstone.fill(&wire.Pipeline{})
	require.True(t, tombstone.Record.Tombstone)

	forgotten := Seen{Record: row}
	forgotten.Record.SeenAt = row.ForgetAt
	forgotten.fill(&wire.Pipeline{})
	require.True(t, forgotten.Forgotten)
	require.False(t, forgotten.Found)

	settled := Seen{Record: row}
	settled.Record.Outcome = "settled"
	settled.fill(&wire.Pipeline{})
	require.ErrorContains(t, settled.check(nil), `outcome "settled"`)
}
