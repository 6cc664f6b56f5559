package external_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestErase erases answered operations with their records. An operation without an answer stops it
// before anything is erased.
func TestErase(t *testing.T) {
	t.Parallel()
	const canary = "canary-4711"
	db := pgtest.New(t)
	f := process(t, db.Pool(t))
	type secret struct {
		Canary string `json:"canary-4711"`
	}
	performed := 0
	h, err := external.Add(f.tools, external.Tool[secret, string]{
		Name: "mail", Ref: func(id string) string { return id },
		Perform: func(_ context.Context, _ external.Attempt, in secret) (string, error) {
			performed++
			switch in.Canary {
			case "lost":
				return "", errors.New(canary)
			case "refused":
				return "", dedup.Final(errors.New(canary))
			}
			return canary, nil
		},
	})
	require.NoError(t, err)
	do := func(key, what string) error {
		_, err := h.Do(f.ctx, call(key), secret{what})
		return err
	}
	erase := func(tool string) (dedup.EraseResult, error) {
		return f.d.Erase(f.ctx, "acme", tool, dedup.ChangeOptions{Reason: "the tenant leaves", Actor: "ada"})
	}
	require.NoError(t, do("done", canary))
	require.ErrorIs(t, do("refused", "refused"), dedup.ErrRefused)
	require.Error(t, do("parked", "lost"))
	require.Error(t, do("pending", "lost"))
	f.exec(`UPDATE tool_effect SET state = 'pending' WHERE key = 'pending'`)
	require.NoError(t, do("twice", canary))
	f.exec(`UPDATE tool_effect SET twice = 'second', looked = true, input = '"` + canary + `"', due_at = now() + interval '1 hour' WHERE key = 'twice'`)

	for _, tool := range []string{"mail", ""} {
		_, err = erase(tool)
		require.ErrorIs(t, err, dedup.ErrInFlight)
		require.True(t, dedup.IsRetryable(err))
		require.False(t, dedup.IsAnswer(err))
		require.ErrorContains(t, err, "2 parked, 1 open")
		require.ErrorContains(t, err, "`dedup resolve`")
	}
	got, err := erase("other")
	require.NoError(t, err)
	require.Zero(t, got)
	require.NoError(t, do("done", canary))

	for key, verdict := range map[string]external.Verdict{
		"parked": external.Refuse(canary), "pending": external.Refuse(canary), "twice": external.Cleared(canary),
	} {
		status, err := f.tools.Status(f.ctx, "acme", "mail", key)
		require.NoError(t, err)
		require.NoError(t, f.tools.Resolve(f.ctx, status.Operation, verdict))
	}
	require.NotEmpty(t, db.Traces(t, canary))
	got, err = erase("mail")
	require.NoError(t, err)
	require.Equal(t, dedup.EraseResult{Records: 5, Effects: 5, Reasons: 3}, got)
	got, err = erase("mail")
	require.NoError(t, err)
	require.Zero(t, got)
	require.Empty(t, db.Traces(t, canary))

	ran := performed
	for _, key := range []string{"done", "refused", "parked", "pending", "twice"} {
		require.ErrorIs(t, do(key, "other"), dedup.ErrExpired)
		status, err := f.tools.Status(f.ctx, "acme", "mail", key)
		require.NoError(t, err)
		require.Equal(t, external.StateExpired, status.State)
		require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
			op, err := h.Accept(f.ctx, tx, call(key), secret{"other"})
			require.Equal(t, external.StateDone, op.State)
			return err
		}))
		op, err := f.tools.Advance(f.ctx, "acme", "mail", key)
		require.NoError(t, err)
		require.Equal(t, external.StateDone, op.State)
	}
	require.Equal(t, ran, performed)
}

// TestEraseBesideAZombie erases an operation whose first attempt still runs. Its effect is the one
// that was erased, so its success is not reported as a second one.
func TestEraseBesideAZombie(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	answer := func(int) (out, error) { return out{"ch_1"}, nil }
	zombie(f, "k", external.Tool[in, out]{KeyKept: 24 * time.Hour}, answer, func(*external.Handle[in, out]) {
		got, err := f.d.Erase(f.ctx, "acme", "charge", dedup.ChangeOptions{Reason: "the tenant leaves"})
		require.NoError(t, err)
		require.Equal(t, dedup.EraseResult{Records: 1, Effects: 1}, got)
	})
	require.Empty(t, f.parked(f.ctx))
	require.Empty(t, f.lookup("k").Ref)
}
