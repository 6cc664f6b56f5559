package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// trips counts the round trips of what do does, and requires that all of them
// were made on one connection that was open before.
func trips(t *testing.T, proxy *faultproxy.Proxy, do func()) int {
	t.Helper()
	proxy.Reset()
	do()
	seen := proxy.Snapshot()
	require.Zero(t, seen.Connections, "new connections")
	require.LessOrEqual(t, seen.Used, 1, "connections")
	return seen.RoundTrips
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()

	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		for _, c := range []struct {
			mode pgx.QueryExecMode
			// extra is what pgx needs for the effect's statement in
			// describe_exec: it asks what that is every time.
			extra int
		}{
			{mode: pgx.QueryExecModeCacheStatement},
			{mode: pgx.QueryExecModeCacheDescribe},
			{mode: pgx.QueryExecModeExec},
			{mode: pgx.QueryExecModeSimpleProtocol},
			{mode: pgx.QueryExecModeDescribeExec, extra: 1},
		} {
			t.Run(fmt.Sprintf("%s-%s", order, c.mode), func(t *testing.T) {
				t.Parallel()
				p := profile{order: order, isolation: pgx.ReadCommitted, mode: c.mode}
				ctx, f, proxy := proxied(t, p, nil)
				first := func(key string) func() {
					return func() {
						result, err := dedup.Do(ctx, f.d, call(key), effect(key))
						require.NoError(t, err)
						require.False(t, result.Replayed)
					}
				}
				replay := func() {
					result, err := dedup.Do(ctx, f.d, call("warm"), effect("warm"))
					require.NoError(t, err)
					require.True(t, result.Replayed)
				}
				first("warm")()
				first("warm 2")()

				// A miss does not cost the next call anything: three times.
				for i := range 3 {
					require.Equal(t, 3+c.extra, trips(t, proxy, first(fmt.Sprint("first ", i))), "first call")
				}
				for range 2 {
					require.Equal(t, 2, trips(t, proxy, replay), "replay")
				}
				// A Deduper that is new examines the table before, in one trip.
				another := newDeduper(t, f.pool, &f.opts)
				require.Equal(t, 4+c.extra, trips(t, proxy, func() {
					_, err := dedup.Do(ctx, another, call("another"), effect("another"))
					require.NoError(t, err)
				}), "first call of a Deduper")

				if p.locks() && c.extra == 0 {
					// A lost race: begin, effect, record, rollback, look. The
					// rival comes over a connection of its own, not through
					// the proxy.
					lost := func(key string) func() {
						return func() {
							result, err := dedup.Do(ctx, f.d, call(key), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
								if err := f.rivalDirect(t, call(key)); err != nil {
									return ticket{}, err
								}
								return effect(key)(ctx, tx)
							})
							require.NoError(t, err)
							require.True(t, result.Replayed)
						}
					}
					lost("lost 0")() // the look's texts are met first here
					require.LessOrEqual(t, trips(t, proxy, lost("lost 1")), 5, "lost race")
					require.Equal(t, 3, trips(t, proxy, first("after a lost race")))
				}

				// In a caller's transaction, whose begin and commit are not
				// counted.
				inTx := func(key string, replayed bool) int {
					tx := f.begin(t, ctx)
					n := trips(t, proxy, func() {
						result, err := dedup.DoTx(ctx, f.d, tx, call(key), effect(key))
						require.NoError(t, err)
						require.Equal(t, replayed, result.Replayed)
					})
					require.NoError(t, tx.Commit(ctx))
					return n
				}
				inTx("warm in tx", false)
				inTx("warm in tx", true)
				require.Equal(t, 3+c.extra, inTx("in tx", false), "first call in a transaction")
				require.Equal(t, 3+c.extra, inTx("in tx 2", false), "first call in a transaction")
				require.Equal(t, 2, inTx("in tx", true), "replay in a transaction")
			})
		}
	}
}

// rivalDirect is rival on the server itself, although the fixture's own database
// handle may lead through a proxy.
func (f *fixture) rivalDirect(t *testing.T, c dedup.Call) error {
	return f.rival(t.Context(), c, c.Key, ticket{ID: 99})
}

// TestWaitingLooks counts what a twin in another process costs while it waits: the attempt that
// finds it busy, which is begin and rollback or a statement that is refused, and each look.
func TestWaitingLooks(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		mode    pgx.QueryExecMode
		do      doFunc
		attempt int
	}{
		{pgx.QueryExecModeCacheStatement, dedup.Do[ticket], 2},
		{pgx.QueryExecModeCacheDescribe, dedup.Do[ticket], 2},
		{pgx.QueryExecModeExec, dedup.Do[ticket], 2},
		{pgx.QueryExecModeSimpleProtocol, dedup.Do[ticket], 2},
		{pgx.QueryExecModeCacheStatement, byStatement, 1},
	} {
		t.Run(fmt.Sprint(c.mode, "-", c.attempt), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: c.mode}, nil)
			f.exec(t, fixtureSQL)
			// The winner is not counted: its pool goes to the server itself.
			winner := newDeduper(t, f.db.Pool(t), nil)
			wait := func(key string, looks int) int {
				held := newGate()
				running := start(ctx, winner, call(key), (&tool{ref: key, then: held.then}).run)
				receive(t, ctx, held.entered)
				return trips(t, proxy, func() {
					// Every look but the last finds the lock taken.
					counter := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: isPeek, Skip: looks - 1})
					defer counter.Disarm()
					twin := startBy(c.do, ctx, f.d, call(key), effect(key))
					require.NoError(t, counter.Wait(ctx))
					held.release()
					receive(t, ctx, running).require(t)
					counter.Release()
					require.True(t, receive(t, ctx, twin).require(t).Replayed)
				})
			}
			_, err := c.do(ctx, f.d, call("warm"), effect("warm"))
			require.NoError(t, err)
			wait("warm 1", 1)
			require.Equal(t, c.attempt+1, wait("a", 1))
			require.Equal(t, c.attempt+5, wait("b", 5))
		})
	}
}

// BenchmarkDo measures a first call and a replay beside the transaction that
// they replace, one client on loopback.
func BenchmarkDo(b *testing.B) {
	ctx := b.Context()
	pool := pgtest.New(b).Pool(b)
	_, err := pool.Exec(ctx, `CREATE TABLE effects (ref text NOT NULL)`)
	require.NoError(b, err)
	d, err := dedup.New(pool, nil)
	require.NoError(b, err)
	keys := 0
	insert := func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, "x")
		return 1, err
	}

	b.Run("Bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { _, err := insert(ctx, tx); return err })
			require.NoError(b, err)
		}
	})
	b.Run("First", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			keys++
			_, err := dedup.Do(ctx, d, call(fmt.Sprint("first ", keys)), insert)
			require.NoError(b, err)
		}
	})
	b.Run("Replay", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := dedup.Do(ctx, d, call("replayed"), insert)
			require.NoError(b, err)
		}
	})
}
