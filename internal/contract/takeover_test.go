package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestTakeover: a record that may be forgotten is taken over by the next call.
// Whoever holds its row is met before the effect, and within MaxWait.
func TestTakeover(t *testing.T) {
	t.Parallel()

	// archived has a sweep whose hook holds the forgotten record of "k". The
	// sweep ends when finish is called.
	archived := func(t *testing.T, v variant) (ctx context.Context, f *fixture, finish func()) {
		ctx, f = v.setup(t, &dedup.Options{Retry: quickRetry})
		_, err := dedup.Do(ctx, f.d, call("k"), effect("first"))
		require.NoError(t, err)
		f.age(t, "k", "100 days")
		hook, swept, peer := newGate(), make(chan error, 1), f.peer(t)
		go func() {
			_, err := peer.Sweep(ctx, &dedup.SweepOptions{Archive: func(ctx context.Context, _ pgx.Tx, _ []dedup.SweptRecord) error {
				return hook.pass(ctx)
			}})
			swept <- err
		}()
		receive(t, ctx, hook.entered)
		return ctx, f, func() {
			hook.release()
			require.NoError(t, receive(t, ctx, swept))
		}
	}

	t.Run("WithinMaxWait", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			ctx, f, finish := archived(t, v)
			e := &tool{ref: "k"}
			for _, wait := range []time.Duration{-1, 20 * time.Millisecond} {
				c := call("k")
				c.MaxWait = wait
				_, err := dedup.Do(ctx, f.d, c, e.run)
				tx := f.begin(t, ctx)
				_, errTx := dedup.DoTx(ctx, f.d, tx, c, e.run)
				if v.order == dedup.LockFirst { // which knows that it is no twin
					require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
					requireState(t, err, "55P03")
					require.ErrorIs(t, errTx, dedup.ErrRestartTx)
				} else {
					require.ErrorIs(t, err, dedup.ErrInFlight)
					require.ErrorIs(t, errTx, dedup.ErrInFlight)
				}
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
				requireUsable(t, ctx, tx)
				require.NoError(t, tx.Rollback(ctx))
			}
			e.requireRuns(t, 0)
			finish()
			got, err := dedup.Do(ctx, f.d, call("k"), e.run)
			require.NoError(t, err)
			require.False(t, got.Replayed)
			require.Equal(t, 1, f.effects(t, "k"))
		})
	})

	t.Run("WaitsForTheSweep", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			ctx, f, finish := archived(t, v)
			e := &tool{ref: "k"}
			pending := start(ctx, f.d, call("k"), e.run)
			require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
			e.requireRuns(t, 0)
			finish()
			require.False(t, receive(t, ctx, pending).require(t).Replayed)
			e.requireRuns(t, 1)
			require.Equal(t, 1, f.effects(t, "k"))
			require.Equal(t, 1, f.records(t))
		})
	})

	// With ClaimFirst a twin may be faster while the DELETE is on its way; it
	// then holds the row's place.
	t.Run("TwinIsFaster", func(t *testing.T) {
		t.Parallel()
		ctx, f, proxy := proxied(t, variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}, nil)
		direct := f.direct(t)
		_, err := dedup.Do(ctx, direct, call("k"), effect("first"))
		require.NoError(t, err)
		f.age(t, "k", "100 days")
		c := call("k")
		c.MaxWait = -1
		held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtSQL("DELETE FROM")})
		late := start(ctx, f.d, c, effect("k"))
		require.NoError(t, held.Wait(ctx))
		running := newGate()
		twin := start(ctx, direct, c, (&tool{ref: "k", then: running.then}).run)
		receive(t, ctx, running.entered)
		held.Release()
		require.ErrorIs(t, receive(t, ctx, late).err, dedup.ErrInFlight)
		running.release()
		require.False(t, receive(t, ctx, twin).require(t).Replayed)
		require.Equal(t, 1, f.effects(t, "k"))
	})
}
