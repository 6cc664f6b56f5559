package contract_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestRefusalInTx: until the caller has committed or rolled back, a refusal is a
// call in flight like any other.
func TestRefusalInTx(t *testing.T) {
	t.Parallel()

	t.Run("HoldsItsIdentity", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			for _, commits := range []bool{true, false} {
				ctx, f := v.setup(t, &dedup.Options{MaxWait: -1})
				tx, other := f.begin(t, ctx), f.begin(t, ctx)
				_, err := dedup.DoTx(ctx, f.d, tx, call("k"), refuse(dedup.Final(errPaper)))
				require.False(t, refused(t, err).Replayed)

				status, err := f.d.Lookup(ctx, "acme", "create_ticket", "k")
				require.NoError(t, err)
				require.Equal(t, dedup.StateInFlight, status.State)
				e := &tool{ref: "k"}
				_, err = dedup.Do(ctx, f.d, call("k"), e.run)
				require.ErrorIs(t, err, dedup.ErrInFlight)
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
				_, err = dedup.DoTx(ctx, f.d, other, call("k"), e.run)
				require.ErrorIs(t, err, dedup.ErrInFlight)
				e.requireRuns(t, 0)
				require.NoError(t, other.Rollback(ctx))

				if commits {
					require.NoError(t, tx.Commit(ctx))
					_, err = dedup.Do(ctx, f.d, call("k"), e.run)
					require.True(t, refused(t, err).Replayed)
					e.requireRuns(t, 0)
				} else {
					require.NoError(t, tx.Rollback(ctx))
					_, err = dedup.Do(ctx, f.d, call("k"), e.run)
					require.NoError(t, err)
					e.requireRuns(t, 1)
				}
			}
		})
	})

	// The identity is free for a moment between the effect and its refusal. A
	// twin that takes it has the say.
	t.Run("TwinInBetween", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			ctx, f, proxy := proxied(t, v, nil)
			held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Skip: 1, Where: func(u faultproxy.Unit) bool {
				return slices.Contains(u.Executes, "savepoint tool_dedup_1")
			}})
			tx := f.begin(t, ctx)
			out := make(chan answered, 1)
			go func() {
				var a answered
				a.Result, a.err = dedup.DoTx(ctx, f.d, tx, call("k"), refuse(dedup.Final(errPaper)))
				out <- a
			}()
			require.NoError(t, held.Wait(ctx))
			twin, err := dedup.Do(ctx, f.direct(t), call("k"), effect("k"))
			require.NoError(t, err)
			held.Release()

			got := receive(t, ctx, out).require(t)
			require.True(t, got.Replayed)
			require.Equal(t, twin.Value, got.Value)
			requireUsable(t, ctx, tx)
			require.NoError(t, tx.Commit(ctx))
			require.Equal(t, 1, f.records(t))
		})
	})

	// A caller's own statement does not deadlock with a twin of the refusal.
	t.Run("TwinHoldsNothing", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			ctx, f := v.setup(t, nil)
			f.exec(t, `CREATE TABLE stock (n int)`)
			f.exec(t, `INSERT INTO stock VALUES (1)`)
			const take = `UPDATE stock SET n = n - 1`
			tx := f.begin(t, ctx)
			_, err := dedup.DoTx(ctx, f.d, tx, call("k"), refuse(dedup.Final(errPaper)))
			require.False(t, refused(t, err).Replayed)
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, err := tx.Exec(ctx, take)
				return err
			}}
			twin := start(ctx, f.peer(t), call("k"), e.run)
			require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
			_, err = tx.Exec(ctx, take)
			require.NoError(t, err)
			require.NoError(t, tx.Commit(ctx))
			require.True(t, refused(t, receive(t, ctx, twin).err).Replayed)
			e.requireRuns(t, 0)
		})
	})
}
