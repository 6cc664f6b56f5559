package contract_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
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

// TestRoundTrips counts what calls cost on a connection that knows their statements.
func TestRoundTrips(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		mode pgx.QueryExecMode
		// described is the cost in describe_exec, where pgx describes a statement each time.
		// forgotten is the cost in cache_describe after a pipeline that ended with an error, as a
		// duplicate's does: pgx describes again.
		described, forgotten int
	}{
		{mode: pgx.QueryExecModeCacheStatement},
		{mode: pgx.QueryExecModeCacheDescribe, forgotten: 1},
		{mode: pgx.QueryExecModeExec},
		{mode: pgx.QueryExecModeSimpleProtocol},
		{mode: pgx.QueryExecModeDescribeExec, described: 1},
	} {
		t.Run(c.mode.String(), func(t *testing.T) {
			t.Parallel()
			// Below the loop they are those of lock first.
			var (
				ctx   context.Context
				f     *fixture
				proxy *faultproxy.Proxy
			)
			with := func(opts dedup.Options) *dedup.Deduper { return newDeduper(t, f.pool, &opts) }
			// costs counts a call of a key.
			costs := func(do way, d *dedup.Deduper, of dedup.Call, replayed bool) int {
				t.Helper()
				return trips(t, proxy, func() {
					result, err := do(ctx, d, of)
					require.NoError(t, err)
					require.Equal(t, replayed, result.Replayed)
				})
			}

			for _, order := range []orderKind{claimFirst, lockFirst} {
				ctx, f, proxy = proxied(t, profile{order: order, isolation: pgx.ReadCommitted, mode: c.mode}, nil)
				d, of := with(dedup.Options{}), func(key string) dedup.Call { return call(string(order) + key) }
				looks := func(key string) dedup.Call { return lookFirst(string(order) + key) }
				costs(byDo, d, of("warm"), false)
				costs(byDo, d, of("warm 2"), false)
				for i := range 3 { // a miss does not cost the next call anything
					require.Equal(t, 3+c.described, costs(byDo, d, of(fmt.Sprint(i)), false), "first call")
				}
				replay := 2
				if order == claimFirst { // the look-up follows a claim that conflicts
					replay = 3
				}
				require.Equal(t, replay, costs(byDo, d, of("warm"), true), "replay")
				require.Equal(t, replay, costs(byDo, d, of("warm"), true), "replay")
				// A Deduper that is new examines the table before, in one trip.
				require.Equal(t, 4+c.described, costs(byDo, with(dedup.Options{}), of("another"), false), "first call of a Deduper")
				costs(byDo, d, looks("warm 3"), false)
				require.Equal(t, 4+c.described, costs(byDo, d, looks("looks"), false), "first call that looks first")
				require.Equal(t, 1, costs(byDo, d, looks("looks"), true), "replay that looks first")

				// In a caller's transaction, whose begin and commit are not counted.
				inTx := func(key string, replayed bool) (n int) {
					tx := f.begin(t, ctx)
					n = costs(func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
						return dedup.DoTx(ctx, d, tx, c, effect(key))
					}, d, of(key), replayed)
					require.NoError(t, tx.Commit(ctx))
					return n
				}
				inTx("warm in tx", false)
				inTx("warm in tx", true)
				require.Equal(t, 3+c.described, inTx("in tx", false), "first call in a transaction")
				require.Equal(t, 3+c.described, inTx("in tx 2", false), "first call in a transaction")
				require.Equal(t, replay, inTx("in tx", true), "replay in a transaction")

				// BEGIN travels with a call that comes first, and COMMIT comes after it.
				inFunc := func(key string, replayed bool) int {
					return costs(func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (result dedup.Result[ticket], err error) {
						err = d.BeginFunc(ctx, func(tx pgx.Tx) error {
							result, err = dedup.DoTx(ctx, d, tx, c, effect(key))
							return err
						})
						return result, err
					}, d, of(key), replayed)
				}
				inFunc("warm in func", false)
				inFunc("warm in func", true)
				require.Equal(t, 4+c.described, inFunc("in func", false), "first call in BeginFunc")
				require.Equal(t, 1+replay, inFunc("in func", true), "replay in BeginFunc")
				require.Equal(t, 4+c.described, inFunc("in func 2", false), "first call in BeginFunc")
				for want, fn := range map[int]func(tx pgx.Tx) error{
					0: func(pgx.Tx) error { return nil },
					2: func(tx pgx.Tx) error { tx.Conn(); return nil },
					3: func(tx pgx.Tx) error { return beside(ctx, tx) },
				} {
					require.NoError(t, d.BeginFunc(ctx, fn))
					require.Equal(t, want, trips(t, proxy, func() { require.NoError(t, d.BeginFunc(ctx, fn)) }), "BeginFunc")
				}
			}

			// A lost race: begin, effect, record, rollback, look. The rival uses another
			// connection, past the proxy.
			if c.described == 0 {
				loses := func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
					return dedup.Do(ctx, d, c, func(ctx context.Context, tx pgx.Tx) (ticket, error) {
						if err := f.rivalDirect(t, c); err != nil {
							return ticket{}, err
						}
						return effect(c.Key)(ctx, tx)
					})
				}
				costs(loses, f.d, call("lost 0"), true) // the look's texts are met first here
				require.LessOrEqual(t, costs(loses, f.d, call("lost 1"), true), 5, "lost race")
				require.Equal(t, 3, costs(byDo, f.d, call("after a lost race"), false))
			}

			// Strangers have not met the calls that they replay.
			stranger := with(dedup.Options{})
			for i, d := range []*dedup.Deduper{f.d, stranger} {
				costs(byStatement, d, call(fmt.Sprint("warm ", i)), false)
			}
			costs(byStatement, stranger, call("warm 0"), true)
			costs(byStatement, f.d, call("warm 5"), false)
			for i := range 3 {
				require.Equal(t, 2+c.described, costs(byStatement, f.d, call(fmt.Sprint(i)), false), "first statement")
			}
			require.Equal(t, 2+c.described, costs(byStatement, stranger, call("0"), true), "replay")
			require.Equal(t, 2+c.described+c.forgotten, costs(byStatement, stranger, call("1"), true), "replay")
			require.Equal(t, 2+c.described+c.forgotten, costs(byStatement, f.d, call("after a replay"), false))
			require.Equal(t, 1, costs(byStatement, stranger, lookFirst("2"), true), "replay that looks first")
			require.Equal(t, 3+c.described, costs(byStatement, f.d, lookFirst("look"), false), "first statement that looks first")
		})
	}
}

// TestRoundTripsOfABatch counts the round trips of a hundred calls and of the largest batch.
func TestRoundTripsOfABatch(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		batchWay
		calls, first int // first is the most for first calls
	}{
		{batchWay{profile: plain}, 100, 2},
		{batchWay{profile: plain}, 1000, 12}, // four parts: a long one may be answered while it is still being sent
		{batchWay{profile: profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec}}, 100, 2},
		{batchWay{profile: profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol}}, 100, 2},
		{batchWay{profile: profile{order: claimFirst, isolation: pgx.ReadCommitted}}, 100, 1 + 3*100},
	} {
		t.Run(fmt.Sprint(c, "-", c.calls), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, c.profile, nil)
			send := func(prefix string, look bool) int {
				calls := singles(prefix, c.calls)
				for i := range calls {
					calls[i].Call.LookFirst = look
				}
				return trips(t, proxy, func() {
					for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values(calls), &dedup.BatchOptions{Size: c.calls}) {
						require.NoError(t, out.Err)
						require.Equal(t, look, out.Result.Replayed)
					}
				})
			}
			send("warm", false)
			send("warm", true)
			require.LessOrEqual(t, send("a", false), c.first, "first calls")
			require.LessOrEqual(t, send("a", true), max(1, c.calls/500), "replays")
			f.exactly(t, 2*c.calls)
		})
	}
}

// TestUnitsOfABatch counts the units sent for sixty calls, some of which differ from the others.
func TestUnitsOfABatch(t *testing.T) {
	t.Parallel()

	make := func(t *testing.T, f *fixture, calls []dedup.StatementCall) {
		for _, c := range calls {
			_, err := byStatement(t.Context(), f.d, c.Call)
			require.NoError(t, err)
		}
	}
	for name, c := range map[string]struct {
		most   int
		change func(t *testing.T, f *fixture, calls []dedup.StatementCall)
	}{
		"Plain": {2, func(*testing.T, *fixture, []dedup.StatementCall) {}},
		// The arrival raises, one look finds the records (and is prepared), and the others are sent
		// again.
		"HalfMadeBefore": {4, func(t *testing.T, f *fixture, calls []dedup.StatementCall) { make(t, f, calls[:30]) }},
		"OneForgotten": {15, func(t *testing.T, f *fixture, calls []dedup.StatementCall) {
			make(t, f, calls[30:31])
			f.age(t, calls[30].Call.Key, "2000 hours")
		}},
		"Discarded": {5, func(t *testing.T, f *fixture, _ []dedup.StatementCall) { f.exec(t, `DISCARD ALL`) }},
		"OneShortRetention": {10, func(_ *testing.T, _ *fixture, calls []dedup.StatementCall) {
			calls[30].Call.Retention = dedup.Retention{Result: time.Minute, Tombstone: time.Minute}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, plain, nil, poolOfOne)
			_, err := byBatch(ctx, f.d, singles("warm", 3))
			require.NoError(t, err)
			requireReplays(t, ctx, f.d, byStatement, byDo)
			calls := singles("k", 60)
			c.change(t, f, calls)
			proxy.Reset()
			_, err = byBatch(ctx, f.d, calls)
			require.NoError(t, err)
			require.LessOrEqual(t, proxy.Snapshot().Units, c.most)
		})
	}
}

// rivalDirect is rival on the server itself, although the fixture's own database
// handle may lead through a proxy.
func (f *fixture) rivalDirect(t *testing.T, c dedup.Call) error {
	return f.rival(t.Context(), c, c.Key, ticket{ID: 99})
}

// TestWaitingLooks counts the round trips of a twin in another process that waits: the attempt that
// finds the identity busy (begin and rollback, or a refused statement), and each look.
func TestWaitingLooks(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		mode    pgx.QueryExecMode
		do      way
		attempt int
	}{
		{pgx.QueryExecModeCacheStatement, byDo, 2},
		{pgx.QueryExecModeCacheDescribe, byDo, 2},
		{pgx.QueryExecModeExec, byDo, 2},
		{pgx.QueryExecModeSimpleProtocol, byDo, 2},
		{pgx.QueryExecModeCacheStatement, byStatement, 2},
	} {
		t.Run(fmt.Sprint(c.mode, "-", c.attempt), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: c.mode}, nil)
			// The winner is not counted: its pool goes to the server itself.
			winner := newDeduper(t, f.db.Pool(t), nil)
			wait := func(key string, looks int) int {
				_, land := f.inFlight(t, ctx, winner, call(key))
				return trips(t, proxy, func() {
					// Every look but the last finds the lock taken.
					counter := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: isPeek, Skip: looks - 1})
					defer counter.Disarm()
					twin := c.do.start(ctx, f.d, call(key))
					require.NoError(t, counter.Wait(ctx))
					land()
					counter.Release()
					require.True(t, receive(t, ctx, twin).require(t).Replayed)
				})
			}
			_, err := c.do(ctx, f.d, call("warm"))
			require.NoError(t, err)
			wait("warm 1", 1)
			require.Equal(t, c.attempt+1, wait("a", 1))
			require.Equal(t, c.attempt+5, wait("b", 5))
		})
	}
}
