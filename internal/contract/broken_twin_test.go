package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestTwinOfBroken: an effect that ends its transaction frees its identity, and
// a twin may run before that can be recorded. Then the error says so.
func TestTwinOfBroken(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	peer := f.peer(t)
	tx := f.begin(t, ctx)
	_, err := dedup.DoTx(ctx, f.d, tx, call("k"), func(_ context.Context, tx pgx.Tx) (ticket, error) {
		if _, err := tx.Conn().Exec(ctx, "COMMIT"); err != nil {
			return ticket{}, err
		}
		twin, err := dedup.Do(ctx, peer, call("k"), effect("k"))
		require.NoError(t, err)
		require.False(t, twin.Replayed)
		return ticket{}, nil
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.ErrorContains(t, err, "a twin has run")

	replay, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	require.True(t, replay.Replayed, "the twin's answer stands")
}
