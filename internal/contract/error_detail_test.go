package contract_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// requireNoSecret looks for a key in the clear in an error's text and in what
// the server added to it.
func requireNoSecret(t *testing.T, err error, secret string) {
	t.Helper()
	require.NotContains(t, err.Error(), secret)
	var server *pgconn.PgError
	if errors.As(err, &server) {
		require.NotContains(t, server.Detail, secret)
		require.NotContains(t, server.Where, secret)
		require.NotContains(t, server.Hint, secret)
	}
}

// TestErrorsDoNotTellTheKey: a violation of tool_dedup's key quotes the row.
func TestErrorsDoNotTellTheKey(t *testing.T) {
	t.Parallel()
	const secret = "SECRET"

	// The caller has gone when the record turns out to be a twin's.
	t.Run("Cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		claims := newDeduper(t, f.db.Pool(t), &dedup.Options{Order: dedup.ClaimFirst})
		held := newGate()
		first := start(ctx, claims, call(secret), (&tool{ref: "k", then: held.then}).run)
		receive(t, ctx, held.entered)
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		late := start(short, f.d, call(secret), effect("k"))
		f.eventually(t, waitingInside, 1)
		cancel()
		held.release()
		receive(t, ctx, first).require(t)
		err := receive(t, ctx, late).err
		require.ErrorIs(t, err, context.Canceled)
		requireState(t, err, "23505")
		requireNoSecret(t, err, secret)
	})

	t.Run("RestartTx", func(t *testing.T) {
		t.Parallel()
		v := variant{order: dedup.LockFirst, isolation: pgx.RepeatableRead}
		ctx, f := v.setup(t, nil)
		e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
			return f.rival(ctx, call(secret), "k", ticket{ID: 99})
		}}
		_, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call(secret), e.run)
		require.ErrorIs(t, err, dedup.ErrRestartTx)
		requireState(t, err, "23505")
		requireNoSecret(t, err, secret)
	})
}
