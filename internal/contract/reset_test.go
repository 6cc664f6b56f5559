package contract_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// resetting is a Reset on a goroutine of its own.
type resetting struct {
	freed bool
	err   error
}

// startReset frees the key "k".
func startReset(f *fixture, t *testing.T, by *dedup.Deduper) <-chan resetting {
	t.Helper()
	ctx := t.Context()
	out := make(chan resetting, 1)
	go func() {
		freed, err := by.Reset(ctx, "acme", "create_ticket", "k", "wrong answer")
		out <- resetting{freed, err}
	}()
	return out
}

// TestReset: what is deleted is the record that was looked at, and no other.
func TestReset(t *testing.T) {
	t.Parallel()

	// While an operator's Reset is on its way, another one frees the identity
	// and the call runs again.
	t.Run("KeepsANewRecord", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			ctx, f, proxy := proxied(t, v, nil)
			direct := f.direct(t)
			e := &tool{ref: "k"}
			_, err := dedup.Do(ctx, direct, call("k"), e.run)
			require.NoError(t, err)
			held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtSQL("DELETE FROM")})
			late := startReset(f, t, f.d)
			require.NoError(t, held.Wait(ctx))

			freed, err := direct.Reset(ctx, "acme", "create_ticket", "k", "wrong answer")
			require.NoError(t, err)
			require.True(t, freed)
			_, err = dedup.Do(ctx, direct, call("k"), e.run)
			require.NoError(t, err)
			held.Release()
			got := receive(t, ctx, late)
			require.NoError(t, got.err)
			require.False(t, got.freed)

			again, err := dedup.Do(ctx, direct, call("k"), e.run)
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, 2, again.Value.ID)
			e.requireRuns(t, 2)
		})
	})

	// Where nothing was seen nothing is deleted: the call may come any moment.
	t.Run("OfNothing", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			ctx, f, proxy := proxied(t, v, nil)
			proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("DELETE FROM")})
			freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", "wrong answer")
			require.NoError(t, err)
			require.False(t, freed)
		})
	})

	t.Run("TwoOperators", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			ctx, f, proxy := proxied(t, v, nil)
			_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
			require.NoError(t, err)
			freed := 0
			var held []*faultproxy.Armed
			var operators []<-chan resetting
			for range 2 {
				one := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtSQL("DELETE FROM")})
				operators = append(operators, startReset(f, t, f.peer(t)))
				require.NoError(t, one.Wait(ctx))
				held = append(held, one)
			}
			for _, one := range held {
				one.Release()
			}
			for _, operator := range operators {
				got := receive(t, ctx, operator)
				require.NoError(t, got.err)
				if got.freed {
					freed++
				}
			}
			require.Equal(t, 1, freed)
			require.Zero(t, f.records(t))
		})
	})

	t.Run("Forgotten", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		e := &tool{ref: "k"}
		_, err := dedup.Do(ctx, f.d, call("k"), e.run)
		require.NoError(t, err)
		f.age(t, "k", "100 days")
		freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", "wrong answer")
		require.NoError(t, err)
		require.True(t, freed, "there was a record")
		require.Zero(t, f.records(t))
		again, err := dedup.Do(ctx, f.d, call("k"), e.run)
		require.NoError(t, err)
		require.False(t, again.Replayed)
	})
}

func TestResetForgottenClaimFirst(t *testing.T) {
	t.Parallel()
	ctx, f := variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	f.age(t, "k", "100 days")
	freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", "wrong answer")
	require.NoError(t, err)
	require.True(t, freed)
	require.Zero(t, f.records(t))
}
