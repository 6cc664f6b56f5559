package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// Few attempts do not make of a table that always conflicts one that is busy.
func TestConflictsWithFewAttempts(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, v variant) {
		for most := 1; most <= 3; most++ {
			ctx, f := v.setup(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: most}})
			f.exec(t, `CREATE UNIQUE INDEX foreign_one ON tool_dedup (tool)`)
			_, err := dedup.Do(ctx, f.d, call("a"), effect("a"))
			require.NoError(t, err)
			_, err = dedup.Do(ctx, f.d, call("b"), effect("b"))
			require.ErrorIs(t, err, dedup.ErrConflict, "MaxAttempts %d", most)
			require.False(t, dedup.IsRetryable(err))
		}
	})
}

// A call that waited for a twin in another process opened no transaction for it.
func TestWaitingIsNoAttempt(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	f.warm(t)
	g := newGate()
	e := &tool{ref: "k", then: g.then}
	twin := start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, g.entered)
	waiter := start(ctx, f.peer(t), call("k"), effect("k"))
	require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
	g.release()
	receive(t, ctx, twin).require(t)
	result := receive(t, ctx, waiter).require(t)
	require.True(t, result.Replayed)
	require.Zero(t, result.Attempts)
}
