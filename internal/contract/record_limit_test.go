package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestTwinWithoutItsLock: a caller's transaction has more calls than it takes locks
// for, and has written the record of one without. Its twins meet that record when they
// write their own, and wait there for no longer than their MaxWait.
func TestTwinWithoutItsLock(t *testing.T) {
	t.Parallel()

	ways := map[string]func(ctx context.Context, f *fixture, t *testing.T, c dedup.Call) error{
		"Do": func(ctx context.Context, f *fixture, t *testing.T, c dedup.Call) error {
			e := &tool{ref: "twin"}
			_, err := dedup.Do(ctx, f.d, c, e.run)
			require.LessOrEqual(t, e.runs.Load(), int32(2))
			return err
		},
		"DoTx": func(ctx context.Context, f *fixture, t *testing.T, c dedup.Call) error {
			tx := f.begin(t, ctx)
			_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '3min'`)
			require.NoError(t, err)
			_, err = dedup.DoTx(ctx, f.d, tx, c, effect("twin"))
			requireUsable(t, ctx, tx)
			own := call("another")
			own.MaxWait = c.MaxWait
			_, errOwn := dedup.DoTx(ctx, f.d, tx, own, effect("own"))
			require.NoError(t, errOwn)
			var left string
			require.NoError(t, tx.QueryRow(ctx, `SHOW lock_timeout`).Scan(&left))
			require.Equal(t, "3min", left)
			require.NoError(t, tx.Rollback(ctx))
			return err
		},
		"DoStatement": func(ctx context.Context, f *fixture, _ *testing.T, c dedup.Call) error {
			_, err := dedup.DoStatement[ticket](ctx, f.d, c, leave("twin"))
			return err
		},
		"DoBatch": func(ctx context.Context, f *fixture, t *testing.T, c dedup.Call) error {
			other := c
			other.Key = "other"
			out := outcomes(ctx, f.d, dedup.StatementCall{Call: c, Statement: leave("twin")}, dedup.StatementCall{Call: other, Statement: leave("other")})
			require.NoError(t, out[1].Err)
			return out[0].Err
		},
		"DoTogether": func(ctx context.Context, f *fixture, _ *testing.T, c dedup.Call) error {
			_, err := dedup.DoTogether[ticket](ctx, f.d, []dedup.StatementCall{{Call: c, Statement: leave("twin")}})
			return err
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, &dedup.Options{CommitTimeout: time.Minute})
			f.countRuns(t)
			tx := f.begin(t, ctx)
			_, err := tx.Exec(ctx, `SELECT set_config('tool_dedup.locks', '256', true)`)
			require.NoError(t, err)
			_, err = dedup.DoTx(ctx, f.peer(t), tx, call("k"), effect("k"))
			require.NoError(t, err)

			ctx, cancel := context.WithTimeout(ctx, 50*time.Second)
			defer cancel()
			for _, wait := range []time.Duration{-1, 20 * time.Millisecond} {
				c := call("k")
				c.MaxWait = wait
				err := way(ctx, f, t, c)
				require.ErrorIs(t, err, dedup.ErrInFlight)
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
			}

			require.NoError(t, tx.Commit(ctx))
			c := call("k")
			c.MaxWait = -1
			require.NoError(t, way(ctx, f, t, c))
			require.Equal(t, 1, f.effects(t, "k"))
			require.Zero(t, f.effects(t, "twin"))
		})
	}
}
