package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// raising is an effect that the server ends with code.
func raising(code string) dedup.Effect[ticket] {
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Exec(ctx, raise(code))
		return ticket{}, err
	}
}

// TestStoreErrorsLeavesOutFaults: StoreErrors is for what a tool answers. What
// the server, an operator or this library objected to may be different next
// time.
func TestStoreErrorsLeavesOutFaults(t *testing.T) {
	t.Parallel()

	effects := map[string]dedup.Effect[ticket]{
		"Cancelled":      raising("57014"),
		"Internal":       raising("XX000"),
		"Disk":           raising("58030"),
		"Aborted":        raising("25P02"),
		"Statement":      raising("26000"),
		"Arbiter":        refuse(&dedup.ArbiterError{}),
		"Conflict":       refuse(&dedup.ConflictError{}),
		"Broken":         refuse(&dedup.BrokenError{}),
		"TxClosed":       refuse(pgx.ErrTxClosed),
		"OutcomeUnknown": refuse(&dedup.OutcomeUnknownError{Err: errPaper}),
		"InvalidCall":    refuse(&dedup.InvalidCallError{Field: "key"}),
		"InFlight":       refuse(dedup.ErrInFlight),
	}
	for name, fails := range effects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, &dedup.Options{StoreErrors: true, Retry: dedup.RetryPolicy{MaxAttempts: 2}})
			_, err := dedup.Do(ctx, f.d, call("k"), fails)
			require.Error(t, err)
			require.NotErrorIs(t, err, dedup.ErrRefused)
			tx := f.begin(t, ctx)
			_, err = dedup.DoTx(ctx, f.d, tx, call("k"), fails)
			require.Error(t, err)
			require.NotErrorIs(t, err, dedup.ErrRefused)
			require.NoError(t, tx.Commit(ctx))
			require.Zero(t, f.records(t))

			_, err = dedup.Do(ctx, f.d, call("k"), effect("k"))
			require.NoError(t, err)
		})
	}

	t.Run("KeepsTheTools", func(t *testing.T) {
		t.Parallel()
		for _, code := range []string{"P0001", "23514", "22003"} {
			ctx, f := plain.setup(t, &dedup.Options{StoreErrors: true})
			_, err := dedup.Do(ctx, f.d, call("k"), raising(code))
			require.False(t, refused(t, err).Replayed, code)
		}
	})
}

// NotFinal keeps an error out of the record, also where all others are stored,
// and hides nothing of it.
func TestNotFinal(t *testing.T) {
	t.Parallel()
	require.NoError(t, dedup.NotFinal(nil))
	require.EqualError(t, dedup.NotFinal(errPaper), errPaper.Error())

	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, &dedup.Options{StoreErrors: true})
		for range 2 {
			_, err := dedup.Do(ctx, f.d, call("k"), func(context.Context, pgx.Tx) (ticket, error) { return ticket{}, dedup.NotFinal(errPaper) })
			require.ErrorIs(t, err, errPaper)
			require.NotErrorIs(t, err, dedup.ErrRefused)
			require.Zero(t, f.records(t))
		}
		result, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
		require.NoError(t, err)
		require.False(t, result.Replayed)
	})
	t.Run("WhateverElseSaysOtherwise", func(t *testing.T) {
		t.Parallel()
		for _, err := range []error{dedup.NotFinal(dedup.Final(errPaper)), dedup.Final(dedup.NotFinal(errPaper))} {
			ctx, f := plain.setup(t, nil)
			_, err := dedup.Do(ctx, f.d, call("k"), func(context.Context, pgx.Tx) (ticket, error) { return ticket{}, err })
			require.ErrorIs(t, err, errPaper)
			require.NotErrorIs(t, err, dedup.ErrRefused)
			require.Zero(t, f.records(t))
		}
	})
	t.Run("TransientIsRetried", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		runs := 0
		_, err := dedup.Do(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			if runs++; runs == 1 {
				got, err := raising("40001")(ctx, tx)
				return got, dedup.NotFinal(err)
			}
			return effect("k")(ctx, tx)
		})
		require.NoError(t, err)
		require.Equal(t, 2, runs)
	})
}
