package dedup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/table"
)

// TestJudge: what a record answers. Misuse comes before age, and a broken call
// before all.
func TestJudge(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &call{Entry: table.Entry{Identity: table.Identity{Scope: "acme", Tool: "book", Key: "k"}}}
	sound := table.Record{Outcome: table.Done, CreatedAt: at, ExpiresAt: at.Add(time.Hour), ForgetAt: at.Add(2 * time.Hour), SeenAt: at}
	with := func(change func(*table.Record)) table.Record {
		r := sound
		change(&r)
		return r
	}
	other := func(r *table.Record) { r.Fingerprint[0] = 1 }
	old := func(r *table.Record) { r.SeenAt = r.ExpiresAt }

	require.NoError(t, c.judge(&sound))
	last := with(func(r *table.Record) { r.SeenAt = r.ExpiresAt.Add(-1) })
	require.NoError(t, c.judge(&last), "to the last moment")

	for name, tc := range map[string]struct {
		r    table.Record
		want error
	}{
		"Broken":         {with(func(r *table.Record) { r.Outcome = table.Broken; other(r); old(r) }), ErrBroken},
		"ClaimCommitted": {with(func(r *table.Record) { r.Outcome = "claimed" }), ErrBroken},
		"OtherArgs":      {with(other), ErrKeyReused},
		"OtherArgsOld":   {with(func(r *table.Record) { other(r); old(r) }), ErrKeyReused},
		"Old":            {with(old), ErrExpired},
		"Tombstone":      {with(func(r *table.Record) { r.Tombstone = true }), ErrExpired},
		"Refused":        {with(func(r *table.Record) { r.Outcome, r.Result = table.Refused, `{"message":"no"}` }), ErrRefused},
		"RefusedOld":     {with(func(r *table.Record) { r.Outcome = table.Refused; old(r) }), ErrExpired},
	} {
		require.ErrorIs(t, c.judge(&tc.r), tc.want, name)
	}

	reused := with(func(r *table.Record) {
		r.Fingerprint, r.ArgDigests = Fingerprint{7}, argDigestsOf(t, map[string]int{"seat": 1})
	})
	asked := &call{Entry: table.Entry{Identity: c.Identity, Fingerprint: Fingerprint{8}, ArgDigests: argDigestsOf(t, map[string]int{"seat": 2})}}
	require.Equal(t, &KeyReusedError{
		Scope: "acme", Tool: "book", KeyHash: KeyHash("k"), First: Fingerprint{7}, Now: Fingerprint{8},
		FirstAt: at, Changed: []string{"seat"}, Complete: true,
	}, asked.judge(&reused))
	expired := with(old)
	require.Equal(t, &ExpiredError{
		Scope: "acme", Tool: "book", KeyHash: KeyHash("k"), FirstAt: at, ExpiredAt: sound.ExpiresAt, ForgetAt: sound.ForgetAt,
	}, c.judge(&expired))
}

func argDigestsOf(t *testing.T, args any) []byte {
	t.Helper()
	_, digests, err := canon.Digest("acme", "book", "k", args)
	require.NoError(t, err)
	return digests
}
