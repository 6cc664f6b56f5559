package dedup

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/canon"
)

// TestJudge: what a record answers. Misuse comes before age, and a broken call
// before all.
func TestJudge(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	req := &request{identity: identity{"acme", "book", "k"}}
	sound := record{outcome: outcomeDone, createdAt: at, expiresAt: at.Add(time.Hour), forgetAt: at.Add(2 * time.Hour), seenAt: at}
	with := func(change func(*record)) record {
		r := sound
		change(&r)
		return r
	}
	other := func(r *record) { r.fingerprint[0] = 1 }
	old := func(r *record) { r.seenAt = r.expiresAt }

	require.NoError(t, sound.judge(req))
	last := with(func(r *record) { r.seenAt = r.expiresAt.Add(-1) })
	require.NoError(t, last.judge(req), "to the last moment")

	for name, c := range map[string]struct {
		r    record
		want error
	}{
		"Broken":         {with(func(r *record) { r.outcome = outcomeBroken; other(r); old(r) }), ErrBroken},
		"ClaimCommitted": {with(func(r *record) { r.outcome = outcomeClaimed }), ErrBroken},
		"OtherArgs":      {with(other), ErrKeyReused},
		"OtherArgsOld":   {with(func(r *record) { other(r); old(r) }), ErrKeyReused},
		"Old":            {with(old), ErrExpired},
		"Tombstone":      {with(func(r *record) { r.tombstone = true }), ErrExpired},
		"Refused":        {with(func(r *record) { r.outcome, r.result = outcomeRefused, `{"message":"no"}` }), ErrRefused},
		"RefusedOld":     {with(func(r *record) { r.outcome = outcomeRefused; old(r) }), ErrExpired},
	} {
		require.ErrorIs(t, c.r.judge(req), c.want, name)
	}

	reused := with(func(r *record) {
		r.fingerprint, r.argDigests = Fingerprint{7}, argDigestsOf(t, map[string]int{"seat": 1})
	})
	asked := &request{identity: identity{"acme", "book", "k"}, fingerprint: Fingerprint{8}, argDigests: argDigestsOf(t, map[string]int{"seat": 2})}
	require.Equal(t, &KeyReusedError{
		Scope: "acme", Tool: "book", KeyHash: KeyHash("k"), First: Fingerprint{7}, Now: Fingerprint{8},
		FirstAt: at, Changed: []string{"seat"}, Complete: true,
	}, reused.judge(asked))
	expired := with(old)
	require.Equal(t, &ExpiredError{
		Scope: "acme", Tool: "book", KeyHash: KeyHash("k"), FirstAt: at, ExpiredAt: sound.expiresAt, ForgetAt: sound.forgetAt,
	}, expired.judge(req))
}

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
		r := record{createdAt: at, expiresAt: at.Add(time.Hour), forgetAt: at.Add(2 * time.Hour), seenAt: at.Add(c.after)}
		require.Equal(t, c.expired, r.expired(), c.after)
		require.Equal(t, c.forgotten, r.forgotten(), c.after)
		require.Equal(t, c.after, r.age())
	}
}

// TestFill: a row is taken over as it was read, and one that no version has
// written is no answer.
func TestFill(t *testing.T) {
	t.Parallel()

	result, at := `{"id":7}`, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	row := recordRow{fingerprint: bytes.Repeat([]byte{7}, 32), argDigests: []byte{1, 255}, result: &result}
	for i := range row.times {
		row.times[i] = at.Add(time.Duration(i))
	}
	for _, known := range []outcome{outcomeDone, outcomeRefused, outcomeBroken, outcomeClaimed} {
		var r record
		row.outcome = string(known)
		require.NoError(t, r.fill(&row))
		require.Equal(t, record{
			fingerprint: Fingerprint(row.fingerprint), argDigests: row.argDigests, outcome: known, result: result,
			createdAt: at, expiresAt: at.Add(1), forgetAt: at.Add(2), seenAt: at.Add(3),
		}, r)
	}

	row.outcome, row.result = "done", nil
	var tombstone record
	require.NoError(t, tombstone.fill(&row))
	require.True(t, tombstone.tombstone)

	row.outcome = "settled"
	require.ErrorContains(t, new(record).fill(&row), `outcome "settled"`)
	row.outcome, row.fingerprint = "done", row.fingerprint[1:]
	require.ErrorContains(t, new(record).fill(&row), "31 bytes")
}

func argDigestsOf(t *testing.T, args any) []byte {
	t.Helper()
	_, digests, err := canon.Digest("acme", "book", "k", args)
	require.NoError(t, err)
	return digests
}
