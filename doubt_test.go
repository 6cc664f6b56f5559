package dedup

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestDatabaseClockThatJumps: after a failover to a server whose clock goes ahead, a
// statement is taken for one that is late, and its call is answered all the same. The
// next one goes in one trip again.
func TestDatabaseClockThatJumps(t *testing.T) {
	t.Parallel()

	leave := func(key string) StatementCall {
		return StatementCall{
			Call: Call{Scope: "acme", Tool: "create_ticket", Key: key},
			Statement: SQL(`WITH run AS (SELECT nextval('runs')::int AS n)
				INSERT INTO effects (ref) SELECT $1::text FROM run RETURNING (SELECT n FROM run) AS id`, key),
		}
	}
	for way, runs := range map[string]int{"DoStatement": 1, "DoBatch": 2} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			proxy, err := faultproxy.New(db.URL)
			require.NoError(t, err)
			t.Cleanup(proxy.Close)
			ctx := t.Context()
			pool, err := pgxpool.New(ctx, proxy.URL())
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			_, err = pool.Exec(ctx, `CREATE TABLE effects (ref text NOT NULL); CREATE SEQUENCE runs`)
			require.NoError(t, err)
			d, err := New(pool, nil)
			require.NoError(t, err)
			do := func(ctx context.Context, key string) error {
				c := leave(key)
				_, err := DoStatement[map[string]any](ctx, d, c.Call, c.Statement)
				return err
			}
			require.NoError(t, do(ctx, "warm"))
			var before int
			const counted = `SELECT last_value FROM runs`
			require.NoError(t, pool.QueryRow(ctx, counted).Scan(&before))

			d.clock.ahead.Add(-time.Hour.Microseconds())
			if way == "DoStatement" {
				require.NoError(t, do(ctx, "k"))
			} else {
				for out := range DoBatch[map[string]any](ctx, d, func(yield func(StatementCall) bool) {
					_ = yield(leave("j")) && yield(leave("k"))
				}, nil) {
					require.NoError(t, out.Err)
				}
			}
			var effects, after int
			require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM effects WHERE ref = 'k'`).Scan(&effects))
			require.Equal(t, 1, effects)
			require.NoError(t, pool.QueryRow(ctx, counted).Scan(&after))
			require.Equal(t, runs, after-before)

			require.NoError(t, do(ctx, "next"))
			proxy.Reset()
			require.NoError(t, do(ctx, "last"))
			seen := proxy.Snapshot()
			require.Equal(t, 1, seen.RoundTrips)
			require.Zero(t, seen.Connections, fmt.Sprint(seen))
		})
	}
}
