package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestNestedByAKeptContext makes a Do with the context of an inner effect that
// has returned: nested as long as the outer one has not.
func TestNestedByAKeptContext(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	var kept context.Context
	other := &tool{ref: "other"}
	outer := &tool{ref: "outer", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		_, err := dedup.DoTx(ctx, f.d, tx, call("inner"), func(ctx context.Context, _ pgx.Tx) (ticket, error) {
			kept = ctx
			return ticket{}, nil
		})
		if err != nil {
			return err
		}
		_, err = dedup.Do(kept, f.d, call("other"), other.run)
		return err
	}}
	_, err := dedup.Do(ctx, f.d, call("outer"), outer.run)
	require.ErrorIs(t, err, dedup.ErrNested)
	other.requireRuns(t, 0)
	require.Zero(t, f.records(t))

	_, err = dedup.Do(kept, f.d, call("other"), other.run)
	require.NoError(t, err, "both effects have returned")
	other.requireRuns(t, 1)
}

// A nested DoTx whose twin the outer snapshot hides: the transaction is Do's own,
// and Do runs it again.
func TestNestedRestartIsRetried(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			ctx, f := variant{isolation: level}.setup(t, nil)
			e := &tool{ref: "outer", then: func(effectCtx context.Context, tx pgx.Tx, run int) error {
				if run == 1 { // the outer snapshot is taken
					if _, err := dedup.Do(ctx, f.peer(t), call("inner"), effect("inner")); err != nil {
						return err
					}
				}
				_, err := dedup.DoTx(effectCtx, f.d, tx, call("inner"), effect("inner"))
				return err
			}}
			_, err := dedup.Do(ctx, f.d, call("outer"), e.run)
			require.NoError(t, err)
			require.Equal(t, 1, f.effects(t, "outer"))
			require.Equal(t, 1, f.effects(t, "inner"))
		})
	}
}
