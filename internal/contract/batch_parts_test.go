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
)

// answersOf are the answers to many calls, made in some way.
type answersOf func(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) ([]ticket, error)

func byBatch(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) (all []ticket, err error) {
	for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(calls), nil) {
		all, err = append(all, out.Result.Value), errors.Join(err, out.Err)
	}
	return all, err
}

// bySingles makes each call on its own, with DoStatement, Do and DoTx in turn.
func bySingles(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) (all []ticket, err error) {
	for i, c := range calls {
		r, one := []way{byDo, byStatement, byTx}[i%3](ctx, d, c.Call)
		all, err = append(all, r.Value), errors.Join(err, one)
	}
	return all, err
}

// TestBatchRaces has the same identities in opposite order, on two pools, at
// once, and while backends are terminated.
func TestBatchRaces(t *testing.T) {
	t.Parallel()
	batchRaces(t, 100, batchWay{profile: plain})
}

func TestLongBatchRaces(t *testing.T) {
	t.Parallel()
	batchRaces(t, 300,
		batchWay{profile: plain},
		batchWay{profile: profile{order: lockFirst, isolation: pgx.Serializable}},
		batchWay{profile: profile{order: claimFirst, isolation: pgx.ReadCommitted}})
}

// batchRaces makes n calls from either side.
func batchRaces(t *testing.T, n int, ways ...batchWay) {
	t.Helper()
	for _, w := range ways {
		for _, pair := range []string{"batch-batch", "batch-singles"} {
			for _, terminate := range []bool{false, true} {
				if terminate && pair != "batch-batch" {
					continue
				}
				t.Run(fmt.Sprint(w, "-", pair, "-", terminate), func(t *testing.T) {
					t.Parallel()
					// Transactions of many calls collide again and again: all of the first
					// attempts may fail.
					retry := dedup.RetryPolicy{MaxAttempts: 50, BaseDelay: time.Millisecond, MaxDelay: 50 * time.Millisecond}
					ctx, f := w.setup(t, &dedup.Options{Retry: retry})
					pool := f.db.Pool(t)
					opts := f.opts
					peer := newDeduper(t, pool, &opts)
					sides := map[string][2]answersOf{
						"batch-batch":   {byBatch, byBatch},
						"batch-singles": {byBatch, bySingles},
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

// A statement that cannot be prepared costs its own call and no other, and what
// was prepared before it on the same connection stays usable.
func TestChunkWithTextsThatCannotBePrepared(t *testing.T) {
	t.Parallel()

	for _, w := range []batchWay{{profile: plain}} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, w.profile, nil, func(config *pgxpool.Config) { config.MaxConns = 1 })
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
			require.Less(t, seen.RoundTrips, 30)
			f.exactly(t, 39)
		})
	}
}

// A few calls that fail do not make the others go one by one.
func TestChunkWithManyFailures(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
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

	for _, w := range []batchWay{{profile: plain}, {profile: profile{order: claimFirst, isolation: pgx.ReadCommitted}}} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := w.setup(t, nil)
			calls := singles("k", 400)
			busy := &calls[390]
			tx := f.begin(t, ctx)
			_, err := dedup.DoTx(ctx, newDeduper(t, f.pool, &dedup.Options{}), tx, busy.Call, effect(busy.Call.Key))
			require.NoError(t, err)

			busy.Call.MaxWait = -1
			_, err = byBatch(ctx, f.d, calls)
			require.ErrorIs(t, err, dedup.ErrInFlight)
			require.Equal(t, 399, f.records(t))

			require.NoError(t, tx.Commit(ctx))
			got, err := byBatch(ctx, f.d, calls)
			require.NoError(t, err)
			require.Equal(t, ticket{ID: 7, Title: busy.Call.Key}, got[390])
			require.Equal(t, 400, f.records(t))
		})
	}
}

// The MaxWait of one call does not limit how long the next call's effect waits for locks.
func TestLockTimeoutInABatch(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	f.exec(t, `CREATE FUNCTION limit_now() RETURNS text LANGUAGE sql VOLATILE AS $$SELECT current_setting('lock_timeout')$$`)
	a := single("a")
	a.Call.MaxWait = -1
	out := outcomes(ctx, f.d, a, dedup.StatementCall{Call: call("b"), Statement: dedup.SQL(`SELECT 1 AS id, limit_now() AS title`)})
	require.NoError(t, errors.Join(out[0].Err, out[1].Err))
	require.Equal(t, "0", out[1].Result.Value.Title)
}

// A part that takes longer than CommitTimeout has arrived in time, and so none of its statements
// is late.
func TestSlowPartIsNotLate(t *testing.T) {
	t.Parallel()
	ctx, f, _ := proxied(t, plain, &dedup.Options{CommitTimeout: 3 * time.Second})
	f.warm(t)
	beside := f.beside(t)
	_, err := beside.Exec(ctx, `SELECT pg_advisory_xact_lock(4711)`)
	require.NoError(t, err)
	waiting := dedup.SQL(`WITH run AS (SELECT nextval('runs')::int AS n, pg_advisory_xact_lock(4711))
		INSERT INTO effects (ref) SELECT $1::text FROM run RETURNING (SELECT n FROM run) AS id, ref AS title`, "slow")
	done := make(chan []dedup.BatchOutcome[ticket], 1)
	go func() {
		done <- outcomes(ctx, f.d, dedup.StatementCall{Call: call("a"), Statement: waiting}, dedup.StatementCall{Call: call("b"), Statement: leave("b")})
	}()
	f.untilWaitingInside(t, 1)
	f.eventually(t, `SELECT clock_timestamp() > $1::timestamptz + interval '3 s'`, scalar[time.Time](t, f.bundle, `SELECT clock_timestamp()`))
	require.NoError(t, beside.Rollback(ctx))
	for _, out := range receive(t, ctx, done) {
		require.NoError(t, out.Err)
		require.Equal(t, 1, out.Result.Attempts)
	}
	require.Equal(t, 1, f.effects(t, "slow"))
	require.Equal(t, 1, f.effects(t, "b"))
}

// A failing statement that is sent in its own transaction runs once.
func TestSeparateStatementFailsOnce(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil, poolOfOne)
	f.warm(t)
	stmt := func(ref string) dedup.Statement {
		return dedup.SQL(`WITH run AS (SELECT nextval('runs')::int AS n) INSERT INTO effects (ref) SELECT $1::text FROM run WHERE $1::text <> 'none' RETURNING 1 AS id, ref AS title`, ref)
	}
	for i := range 3 {
		_, err := dedup.DoStatement[ticket](ctx, f.d, call(fmt.Sprint("ok", i)), stmt("ok"))
		require.NoError(t, err)
		r, err := dedup.DoStatement[ticket](ctx, f.d, call(fmt.Sprint("bad", i)), stmt("none"))
		require.ErrorIs(t, err, pgx.ErrNoRows)
		require.Equal(t, 1, r.Attempts)
	}
}
