package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// caseRival commits a twin while the effect runs, past the lock: only the
// primary key is left to decide.
func caseRival(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	var rivalErr error
	e := &tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
		rivalErr = f.rival(ctx, call("k"), "k", ticket{ID: 99})
		return nil
	}}

	result, err := f.do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
	if !v.locks() { // the claim keeps the rival out
		requireState(t, rivalErr, "55P03")
		require.False(t, result.Replayed)
		return
	}
	require.NoError(t, rivalErr)
	require.True(t, result.Replayed)
	require.False(t, result.Recovered)
	require.Equal(t, 99, result.Value.ID)
	conflicts := events[dedup.ConflictData](f.events)
	require.Len(t, conflicts, 1)
	require.True(t, conflicts[0].Resolved)
	require.Contains(t, []string{"23505", "40001"}, conflicts[0].SQLState)
}

// caseOwnUnique has the loser's effect fail on the application's own index
// before the record is written.
func caseOwnUnique(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	f.exec(t, `CREATE TABLE tickets (ref text UNIQUE)`)
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		if err := f.rival(ctx, call("k"), "k", ticket{ID: 99}, `INSERT INTO tickets VALUES ('k')`); err != nil {
			return fmt.Errorf("rival: %w", err)
		}
		_, err := tx.Exec(ctx, `INSERT INTO tickets VALUES ('k')`)
		return err
	}}

	result, err := f.do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Equal(t, 99, result.Value.ID)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	conflicts := events[dedup.ConflictData](f.events)
	require.Len(t, conflicts, 1)
	require.True(t, conflicts[0].Resolved)

	// Without a rival's record it is the call's own error.
	_, err = f.do(ctx, f.d, call("other"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Exec(ctx, `INSERT INTO tickets VALUES ('k')`)
		return ticket{}, err
	})
	requireState(t, err, "23505")
	require.NotErrorIs(t, err, dedup.ErrConflict)
	require.Equal(t, 1, f.records(t))
}

// caseOwnLook has the loser's effect see the winner's row and object by itself.
func caseOwnLook(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	e := func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		if err := f.rival(ctx, call("k"), "k", ticket{ID: 99}); err != nil {
			return ticket{}, fmt.Errorf("rival: %w", err)
		}
		var taken bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM effects WHERE ref = 'k')`).Scan(&taken); err != nil {
			return ticket{}, err
		}
		if taken {
			return ticket{}, errPaper
		}
		_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ('k')`) // an older snapshot
		return ticket{}, err
	}

	result, err := f.do(ctx, f.d, call("k"), e)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Equal(t, 99, result.Value.ID)
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseDeferred(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	f.exec(t, `CREATE TABLE slots (slot int CONSTRAINT slots_slot_key UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	f.exec(t, `INSERT INTO slots VALUES (1)`)
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		_, err := tx.Exec(ctx, `INSERT INTO slots VALUES (1)`)
		return err
	}}

	_, err := f.do(ctx, f.d, call("k"), e.run)
	requireState(t, err, "23505")
	require.ErrorContains(t, err, "slots_slot_key")
	for _, other := range []error{dedup.ErrConflict, dedup.ErrOutcomeUnknown, dedup.ErrAttemptsExhausted} {
		require.NotErrorIs(t, err, other)
	}
	e.requireRuns(t, v.tries())
	require.Zero(t, f.effects(t, "k"))
	require.Zero(t, f.records(t))
}

func caseTransient(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	for _, code := range []string{"40001", "40P01", "55P03", "57P01", "53200"} {
		e := &tool{ref: code, then: func(ctx context.Context, tx pgx.Tx, run int) error {
			if run > 2 {
				return nil
			}
			_, err := tx.Exec(ctx, raise(code))
			return err
		}}
		result, err := f.do(ctx, f.d, call(code), e.run)
		require.NoError(t, err)
		require.False(t, result.Replayed)
		require.Equal(t, 3, result.Attempts)
		e.requireRuns(t, 3)
		require.Equal(t, 1, f.effects(t, code))
	}
	faults := 10
	if v.whole() { // the first of each call is not waited for
		faults = 5
	}
	require.Len(t, events[dedup.RetriedData](f.events), faults)
}

func caseTransientForEver(t *testing.T, v variant) {
	ctx, f := v.setup(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}})
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, run int) error {
		_, err := tx.Exec(ctx, raise("40001"))
		return err
	}}

	_, err := f.do(ctx, f.d, call("k"), e.run)
	var gaveUp *dedup.AttemptsError
	require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, 2+v.tries(), gaveUp.Attempts)
	requireState(t, err, "40001")
	e.requireRuns(t, 2+v.tries())
	require.Zero(t, f.effects(t, "k"))
}
