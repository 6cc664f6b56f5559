package contract_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// answersOf are the answers to many calls, made in some way.
type answersOf func(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) ([]ticket, error)

func byBatch(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) (all []ticket, err error) {
	for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(calls), nil) {
		all, err = append(all, out.Result.Value), errors.Join(err, out.Err)
	}
	return all, err
}

func byTogether(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) (all []ticket, err error) {
	results, err := dedup.DoTogether[ticket](ctx, d, calls)
	for _, r := range results {
		all = append(all, r.Value)
	}
	return all, err
}

// bySingles makes every call by itself, in turn by each of the other functions.
func bySingles(pool *pgxpool.Pool) answersOf {
	return func(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) (all []ticket, err error) {
		for i, c := range calls {
			work := func(ctx context.Context, tx pgx.Tx) (got ticket, err error) {
				err = tx.QueryRow(ctx, c.Statement.SQL, c.Statement.Args...).Scan(&got.ID, &got.Title)
				return got, err
			}
			var r dedup.Result[ticket]
			var one error
			switch i % 3 {
			case 0:
				r, one = dedup.Do(ctx, d, c.Call, work)
			case 1:
				r, one = dedup.DoStatement[ticket](ctx, d, c.Call, c.Statement)
			default:
				for again := true; again; again = errors.Is(one, dedup.ErrRestartTx) {
					one = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
						r, err = dedup.DoTx(ctx, d, tx, c.Call, work)
						return err
					})
				}
			}
			all, err = append(all, r.Value), errors.Join(err, one)
		}
		return all, err
	}
}

// TestBatchRaces has the same identities in opposite order, on two pools, at
// once, and while backends are terminated.
func TestBatchRaces(t *testing.T) {
	t.Parallel()

	const n = 300
	ways := []batchWay{
		{variant: plain}, {variant: plain, separate: true},
		{variant: variant{order: dedup.LockFirst, isolation: pgx.Serializable}},
		{variant: variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}},
	}
	for _, w := range ways {
		for _, pair := range []string{"batch-batch", "together-together", "batch-together", "batch-singles", "together-singles"} {
			for _, terminate := range []bool{false, true} {
				if terminate && pair != "batch-together" {
					continue
				}
				t.Run(fmt.Sprint(w, "-", pair, "-", terminate), func(t *testing.T) {
					t.Parallel()
					// Between whole transactions that collide again and again the
					// first attempts may all be in vain.
					retry := dedup.RetryPolicy{MaxAttempts: 50, BaseDelay: time.Millisecond, MaxDelay: 50 * time.Millisecond}
					ctx, f := w.setup(t, &dedup.Options{Retry: retry})
					pool := f.db.Pool(t)
					opts := f.opts
					peer := newDeduper(t, pool, &opts)
					sides := map[string][2]answersOf{
						"batch-batch": {byBatch, byBatch}, "together-together": {byTogether, byTogether}, "batch-together": {byBatch, byTogether},
						"batch-singles": {byBatch, bySingles(pool)}, "together-singles": {byTogether, bySingles(pool)},
					}[pair]

					calls := singles("k", n)
					backwards := slices.Clone(calls)
					slices.Reverse(backwards)
					var got [2][]ticket
					var errs [2]error
					var both sync.WaitGroup
					both.Go(func() { got[0], errs[0] = sides[0](ctx, f.d, calls) })
					both.Go(func() { got[1], errs[1] = sides[1](ctx, peer, backwards) })
					done := make(chan struct{})
					go func() { both.Wait(); close(done) }()
					for i := 0; terminate && i < 5; i++ {
						f.terminate(t, ctx, done)
					}
					receive(t, ctx, done)
					require.NoError(t, errs[0])
					require.NoError(t, errs[1])
					slices.Reverse(got[1])
					require.Equal(t, got[0], got[1])
					f.exactly(t, n)
				})
			}
		}
	}
}

// terminate ends a backend that is in a transaction, or returns when done is
// closed.
func (f *fixture) terminate(t *testing.T, ctx context.Context, done <-chan struct{}) {
	t.Helper()
	conn, err := pgx.Connect(ctx, f.db.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for hit := int64(0); hit == 0; {
		select {
		case <-done:
			return
		default:
		}
		tag, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle' LIMIT 1`)
		require.NoError(t, err)
		hit = tag.RowsAffected()
	}
}

// TestBatchCuts cuts the connection in a hundred places of either direction. The
// campaign every-byte of `dedup chaos` cuts behind each byte.
func TestBatchCuts(t *testing.T) {
	t.Parallel()

	const cuts = 120
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for name, way := range map[string]answersOf{"Batch": byBatch, "Together": byTogether} {
			for _, direction := range []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient} {
				t.Run(fmt.Sprintf("%s-%s-%d", name, mode, direction), func(t *testing.T) {
					t.Parallel()
					v := variant{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: mode}
					ctx, f, proxy := proxied(t, v, &dedup.Options{CommitTimeout: time.Second, Retry: quickRetry},
						func(config *pgxpool.Config) { config.MaxConns = 1 })
					f.exec(t, fixtureSQL)
					direct, made := f.direct(t), 0
					next := func() []dedup.StatementCall {
						made++
						return singles(fmt.Sprintf("k%05d", made), 2)
					}
					run := func(calls []dedup.StatementCall) []ticket {
						got, err := way(ctx, f.d, calls)
						require.NoError(t, err)
						return got
					}
					run(next())
					proxy.Reset()
					run(next())
					passed := func() int64 {
						if direction == faultproxy.ToClient {
							return proxy.Snapshot().BytesToClient
						}
						return proxy.Snapshot().BytesToServer
					}
					bytes := passed()
					require.Greater(t, bytes, int64(100))
					for k := int64(0); k < bytes; k += max(7, bytes/cuts) {
						run(next()) // prepares what the new connection needs
						proxy.Reset()
						armed := proxy.Arm(faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: direction, Bytes: k})
						calls := next()
						got := run(calls)
						if armed.Count() == 0 { // a time in an answer is shorter when it ends in zeros
							require.LessOrEqual(t, passed(), k, "cut behind byte %d of %d", k, bytes)
							armed.Disarm()
							require.GreaterOrEqual(t, k, bytes-16)
						}
						again, err := byBatch(ctx, direct, calls)
						require.NoError(t, err)
						require.Equal(t, got, again, "cut behind byte %d of %d", k, bytes)
					}
					f.exactly(t, 2*made)
				})
			}
		}
	}
}

// A statement that cannot be prepared costs its own call and no other, and what
// was prepared before it on the same connection stays usable.
func TestChunkWithTextsThatCannotBePrepared(t *testing.T) {
	t.Parallel()

	for _, w := range []batchWay{{variant: plain}, {variant: plain, separate: true}} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, w.variant, &dedup.Options{SeparateStatements: w.separate}, func(config *pgxpool.Config) { config.MaxConns = 1 })
			f.exec(t, fixtureSQL)
			calls := singles("k", 40)
			for i := range calls {
				calls[i].Statement.SQL += fmt.Sprintf(" -- %d", i)
			}
			calls[20].Statement = dedup.SQL(`SELECT id FROM missing`)
			proxy.Reset()
			for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values(calls), nil) {
				if out.Index == 20 {
					requireState(t, out.Err, "42P01")
				} else {
					require.NoError(t, out.Err)
				}
			}
			seen := proxy.Snapshot()
			require.Zero(t, seen.Connections, "new connections")
			if !w.separate { // else each of them takes three
				require.Less(t, seen.RoundTrips, 30)
			}
			f.exactly(t, 39)
		})
	}
}

// A few calls that fail do not make the others go one by one.
func TestChunkWithManyFailures(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	f.exec(t, fixtureSQL)
	_, err := byBatch(ctx, f.d, singles("warm", 2))
	require.NoError(t, err)
	calls := singles("k", 100)
	for i := 5; i < len(calls); i += 10 {
		calls[i] = spoiling(calls[i].Call.Key, "23514")
	}
	proxy.Reset()
	for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values(calls), nil) {
		require.Equal(t, out.Index%10 == 5, out.Err != nil, "%d", out.Index)
	}
	// For each call that fails: the attempt that it spoils, the one of those before
	// it, and its own, in which pgx prepares its statement once more: 1 + 1 + 6. One
	// by one all of them would take 160.
	require.LessOrEqual(t, proxy.Snapshot().RoundTrips, 110)
	f.exactly(t, 92)
	ran := scalar[int](t, f.bundle, `SELECT last_value FROM runs`)
	require.LessOrEqual(t, ran, 2+2*100+2*10, "runs")
}

// A twin in a caller's transaction, which may last, is not waited for with a
// connection in hand, however large the batch.
func TestChunkDoesNotWaitInsidePostgres(t *testing.T) {
	t.Parallel()

	for _, w := range []batchWay{{variant: plain}, {variant: plain, separate: true}, {variant: variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}}} {
		for name, way := range map[string]answersOf{"Batch": byBatch, "Together": byTogether} {
			t.Run(fmt.Sprint(w, "-", name), func(t *testing.T) {
				t.Parallel()
				ctx, f := w.setup(t, nil)
				calls := singles("k", 400)
				busy := &calls[390]
				tx := f.begin(t, ctx)
				_, err := dedup.DoTx(ctx, newDeduper(t, f.pool, &dedup.Options{Order: w.order}), tx, busy.Call, effect(busy.Call.Key))
				require.NoError(t, err)

				busy.Call.MaxWait = -1
				_, err = way(ctx, f.d, calls)
				require.ErrorIs(t, err, dedup.ErrInFlight)
				want := 399
				if name == "Together" {
					want = 0
				}
				require.Equal(t, want, f.records(t))

				require.NoError(t, tx.Commit(ctx))
				got, err := way(ctx, f.d, calls)
				require.NoError(t, err)
				require.Equal(t, ticket{ID: 7, Title: busy.Call.Key}, got[390])
				require.Equal(t, 400, f.records(t))
			})
		}
	}
}
