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

// leaveSQL is an effect that is one statement. It leaves a row in effects, and
// counts its runs with a sequence, which no rollback takes back: its answer is the
// number of the run.
const leaveSQL = `WITH run AS (SELECT nextval('runs')::int AS n)
INSERT INTO effects (ref) SELECT $1::text FROM run RETURNING (SELECT n FROM run) AS id, ref AS title`

func leave(ref string) dedup.Statement { return dedup.SQL(leaveSQL, ref) }

func (b *bundle) countRuns(t *testing.T) {
	t.Helper()
	b.exec(t, `CREATE SEQUENCE runs`)
}

// runs is how often leaveSQL has been run.
func (b *bundle) runs(t *testing.T) int {
	t.Helper()
	return scalar[int](t, b, `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM runs`)
}

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

// TestStatementBudgetEnds has the answer lost and nobody left to ask.
func TestStatementBudgetEnds(t *testing.T) {
	t.Parallel()

	retry := quickRetry
	retry.MaxAttempts = 3
	ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: retry})
	f.countRuns(t)
	_, err := dedup.DoStatement[ticket](ctx, f.d, call("warm"), leave("warm"))
	require.NoError(t, err)

	held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: func(u faultproxy.Unit) bool {
		if !isCombined(u) {
			return false
		}
		proxy.Refuse(true)
		return true
	}})
	_, err = dedup.DoStatement[ticket](ctx, f.d, call("k"), leave("k"))
	var unknown *dedup.Error
	require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, 3, unknown.Attempts)
	require.NotErrorIs(t, err, dedup.ErrAttemptsExhausted)
	require.NoError(t, held.WaitSettled(ctx))

	proxy.Refuse(false)
	replay, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), leave("k"))
	require.NoError(t, err)
	require.True(t, replay.Replayed)
	require.Equal(t, 2, f.runs(t))
	require.Equal(t, 1, f.effects(t, "k"))
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
			f.countRuns(t)
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

// TestStatementRoundTrips: what a call costs, on a connection that knows the
// statement.
func TestStatementRoundTrips(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		mode pgx.QueryExecMode
		// described is what pgx needs in describe_exec for a batch, and forgotten
		// what it needs in cache_describe after a batch that ended in an error, as
		// a duplicate's does: it asks anew what the statement is.
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
			p := profile{isolation: pgx.ReadCommitted, mode: c.mode}
			ctx, f, proxy := proxied(t, p, nil)
			f.countRuns(t)
			separate := newDeduper(t, f.pool, &dedup.Options{Retention: apart(true)})
			// They have not met the calls that they replay.
			stranger := newDeduper(t, f.pool, nil)
			separateStranger := newDeduper(t, f.pool, &dedup.Options{Retention: apart(true)})
			do := func(d *dedup.Deduper, call dedup.Call, replayed bool) func() {
				return func() {
					t.Helper()
					result, err := dedup.DoStatement[ticket](ctx, d, call, leave(call.Key))
					require.NoError(t, err)
					require.Equal(t, replayed, result.Replayed)
				}
			}
			first := func(key string) func() { return do(f.d, call(key), false) }
			for i, d := range []*dedup.Deduper{f.d, separate, stranger, separateStranger} {
				do(d, call(fmt.Sprint("warm ", i)), false)()
			}
			do(stranger, call("warm 0"), true)()
			first("warm 5")()

			for i := range 3 {
				require.Equal(t, 1+c.described, trips(t, proxy, first(fmt.Sprint("first ", i))), "first call")
			}
			require.Equal(t, 2+c.described, trips(t, proxy, do(stranger, call("first 0"), true)), "replay")
			require.Equal(t, 2+c.described+c.forgotten, trips(t, proxy, do(stranger, call("first 1"), true)), "replay")
			require.Equal(t, 1+c.described+c.forgotten, trips(t, proxy, first("after a replay")), "first call after a replay")

			looks := func(key string) dedup.Call {
				c := call(key)
				c.LookFirst = true
				return c
			}
			require.Equal(t, 1, trips(t, proxy, do(stranger, looks("first 2"), true)), "replay that looks first")
			require.Equal(t, 2+c.described, trips(t, proxy, do(f.d, looks("look"), false)), "first call that looks first")

			for i := range 2 {
				// In describe_exec the effect is asked for as well.
				require.Equal(t, 3+c.described, trips(t, proxy, do(separate, call(fmt.Sprint("separate ", i)), false)), "first call, separate")
			}
			require.Equal(t, 2, trips(t, proxy, do(separateStranger, call("separate 0"), true)), "replay, separate")
		})
	}

	// What a connection does not know is prepared in one round trip.
	t.Run("OncePerConnection", func(t *testing.T) {
		t.Parallel()
		ctx, f, proxy := proxied(t, plain, nil, poolOfOne)
		f.countRuns(t)
		_, err := dedup.DoStatement[ticket](ctx, f.d, call("trusted"), leave("trusted"))
		require.NoError(t, err)
		f.pool.Reset()
		for _, extra := range []int{1, 0, 0} {
			key := fmt.Sprint("extra ", f.records(t))
			conn, err := f.pool.Acquire(ctx) // connects
			require.NoError(t, err)
			conn.Release()
			require.Equal(t, 1+extra, trips(t, proxy, func() {
				_, err := dedup.DoStatement[ticket](ctx, f.d, call(key), leave(key))
				require.NoError(t, err)
			}))
		}
	})
}
