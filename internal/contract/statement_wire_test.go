package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// isCombined picks the unit that carries effect and record as one statement.
func isCombined(u faultproxy.Unit) bool {
	return len(u.Executes) == 1 && faultproxy.AtSQL("a twin of this call is in flight")(u)
}

// startStatement makes a call on a goroutine of its own.
func startStatement(ctx context.Context, d *dedup.Deduper, c dedup.Call, stmt dedup.Statement) <-chan answered {
	do := func(ctx context.Context, d *dedup.Deduper, c dedup.Call, _ dedup.Effect[ticket]) (dedup.Result[ticket], error) {
		return dedup.DoStatement[ticket](ctx, d, c, stmt)
	}
	return startBy(do, ctx, d, c, nil)
}

// TestStatementArrivesLate has the combined statement come to the server after a
// second attempt has been answered: the effect's error must not be given as
// the end of it, and a success must stay the only one.
func TestStatementArrivesLate(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, profile{isolation: pgx.ReadCommitted, mode: mode}, &dedup.Options{Retry: quickRetry})
			f.exec(t, `CREATE TABLE open (yes bool)`)
			_, err := dedup.DoStatement[ticket](ctx, f.d, call("warm"), leave("warm"))
			require.NoError(t, err)

			t.Run("AfterSuccess", func(t *testing.T) {
				late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Delayed, Where: isCombined})
				result, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), leave("k"))
				require.NoError(t, err)
				require.False(t, result.Replayed)
				late.Release()
				require.NoError(t, late.WaitSettled(ctx))
				require.Equal(t, 1, f.effects(t, "k"))
			})

			// The statement fails now, and would not later.
			t.Run("AfterAnError", func(t *testing.T) {
				late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Delayed, Where: isCombined})
				stmt := dedup.SQL(`WITH ok AS (SELECT 1 / count(*) AS n FROM open) INSERT INTO effects SELECT 'late' FROM ok WHERE n = 1 RETURNING ref AS title`)
				_, err := dedup.DoStatement[ticket](ctx, f.d, call("late"), stmt)
				require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
				requireState(t, err, "22012")
				f.exec(t, `INSERT INTO open VALUES (true)`)
				late.Release()
				require.NoError(t, late.WaitSettled(ctx))
				_, err = dedup.DoStatement[ticket](ctx, f.d, call("late"), stmt)
				require.NoError(t, err)
				require.Equal(t, 1, f.effects(t, "late"))
			})
		})
	}
}

// TestStatementIsPreparedOnce: what a connection does not know is prepared in one round trip.
func TestStatementIsPreparedOnce(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil, poolOfOne)
	_, err := byStatement(ctx, f.d, call("trusted"))
	require.NoError(t, err)
	f.pool.Reset()
	for _, extra := range []int{1, 0, 0} {
		key := fmt.Sprint("extra ", f.records(t))
		conn, err := f.pool.Acquire(ctx) // connects
		require.NoError(t, err)
		conn.Release()
		require.Equal(t, 1+extra, trips(t, proxy, func() {
			_, err := byStatement(ctx, f.d, call(key))
			require.NoError(t, err)
		}))
	}
}
