package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

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
	out := make(chan answered, 1)
	go func() {
		var a answered
		a.Result, a.err = dedup.DoStatement[ticket](ctx, d, c, stmt)
		out <- a
	}()
	return out
}

// TestStatementFaults lets every fault hit the unit that is the entire call.
func TestStatementFaults(t *testing.T) {
	t.Parallel()

	const soon = 20 * time.Millisecond
	const (
		plainly   = iota // it was answered
		recovered        // it went through, and its answer was lost
		again            // it did not go through
		hung             // nothing came back until the caller gave up
		either           // it goes through or comes too late
	)
	faults := []struct {
		faultproxy.Fault
		want int
	}{
		{faultproxy.Fault{Kind: faultproxy.ReplyReset}, recovered},
		{faultproxy.Fault{Kind: faultproxy.ReplyClosed}, recovered},
		{faultproxy.Fault{Kind: faultproxy.ReplyCut}, recovered},
		{faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Delay: soon}, plainly},
		{faultproxy.Fault{Kind: faultproxy.Blackhole}, hung},
		{faultproxy.Fault{Kind: faultproxy.Dropped}, again},
		{faultproxy.Fault{Kind: faultproxy.CutBeforeSync}, again}, // it commits at Sync
		{faultproxy.Fault{Kind: faultproxy.Delayed, Delay: soon}, either},
		{faultproxy.Fault{Kind: faultproxy.Hold, Delay: soon}, plainly},
		{faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: faultproxy.ToServer, Bytes: 40}, again},
		{faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: faultproxy.ToClient, Bytes: 0}, recovered},
		{faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: faultproxy.ToClient, Bytes: 60}, recovered},
	}
	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, profile{isolation: pgx.ReadCommitted, mode: mode}, &dedup.Options{Retry: quickRetry})
			f.countRuns(t)
			direct := f.direct(t)
			for i, fault := range faults {
				if fault.Kind == faultproxy.CutBeforeSync && mode == pgx.QueryExecModeSimpleProtocol {
					fault.want = recovered // there is no Sync to cut off
				}
				name := fmt.Sprintf("%d %s", i, fault.Kind)
				fault.Where = isCombined
				armed := proxy.Arm(fault.Fault)
				calling, cancel := ctx, context.CancelFunc(func() {})
				if fault.want == hung {
					calling, cancel = cancelledAt(ctx, armed)
				}
				result, err := dedup.DoStatement[ticket](calling, f.d, call(name), leave(name))
				cancel()
				require.Equal(t, 1, armed.Count(), "%s was applied", name)
				if fault.want == hung {
					require.ErrorIs(t, err, dedup.ErrOutcomeUnknown, name)
					require.ErrorIs(t, err, context.Canceled, name)
					require.True(t, dedup.IsRetryable(err))
				} else {
					require.NoError(t, err, name)
				}
				require.NoError(t, armed.WaitSettled(ctx))

				replay, err := dedup.DoStatement[ticket](ctx, direct, call(name), leave(name))
				require.NoError(t, err, name)
				require.True(t, replay.Replayed, name)
				require.Equal(t, 1, f.effects(t, name), name)
				if fault.want != hung {
					require.Equal(t, result.Value, replay.Value, name)
					require.True(t, result.CreatedAt.Equal(replay.CreatedAt), name)
				}
				if fault.want < hung {
					require.Equal(t, fault.want == recovered, result.Recovered, name)
					require.Equal(t, fault.want == recovered, result.Replayed, name)
				}
			}
			require.Equal(t, len(faults), f.records(t))
		})
	}
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

// TestStatementCutAtEveryByte cuts the connection behind every 31st byte of the call and
// of its answer, in pgx's default mode.
func TestStatementCutAtEveryByte(t *testing.T) {
	t.Parallel()
	cutStatements(t, []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement}, func(pgx.QueryExecMode) int64 { return 31 })
}

// TestLongStatementCutAtEveryByte cuts behind each byte in pgx's default mode. The
// others cut at every seventh byte, and those that send the SQL text at every 61st
// within it: at each byte of all five it has been run once, and took 40 s.
func TestLongStatementCutAtEveryByte(t *testing.T) {
	t.Parallel()
	cutStatements(t, execModes, func(mode pgx.QueryExecMode) int64 {
		if mode == pgx.QueryExecModeCacheStatement {
			return 1
		}
		return 7
	})
}

// cutStatements cuts the connection behind a byte of a call or of its answer, and
// stepIn bytes later.
func cutStatements(t *testing.T, modes []pgx.QueryExecMode, stepIn func(pgx.QueryExecMode) int64) {
	t.Helper()
	const tail = 200 // longer than what stands behind the text
	for _, mode := range modes {
		step := stepIn(mode)
		for _, direction := range []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient} {
			t.Run(fmt.Sprintf("%s-%d", mode, direction), func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, profile{isolation: pgx.ReadCommitted, mode: mode}, &dedup.Options{Retry: quickRetry})
				f.countRuns(t)
				_, err := dedup.DoStatement[ticket](ctx, f.d, call("warm"), leave("warm"))
				require.NoError(t, err)
				size := combinedSize(t, ctx, f, proxy, direction)
				require.Greater(t, size, int64(50))

				answers := map[string]ticket{}
				for k := int64(0); k < size; k += step {
					if size-k > 2*tail && k > tail {
						k += 60
					}
					key := fmt.Sprintf("byte %04d", k)
					armed := proxy.Arm(faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: direction, Bytes: k, Where: isCombined})
					result, err := dedup.DoStatement[ticket](ctx, f.d, call(key), leave(key))
					require.NoError(t, err, key)
					answers[key] = result.Value
					if armed.Count() == 0 { // an answer may be some bytes shorter than the one measured
						require.GreaterOrEqual(t, k, size-16, key)
						armed.Disarm()
						break
					}
					require.NoError(t, armed.WaitSettled(ctx))
				}
				require.GreaterOrEqual(t, int64(len(answers)), min(20, size/step), "cuts of %d bytes", size)

				conn, err := pgx.Connect(ctx, f.db.URL)
				require.NoError(t, err)
				defer conn.Close(context.WithoutCancel(ctx))
				rows, err := conn.Query(ctx, `SELECT key, (result::json->>'id')::int, result::json->>'title', (SELECT count(*) FROM effects WHERE ref = key)
					FROM tool_dedup WHERE key LIKE 'byte%'`)
				require.NoError(t, err)
				var key string
				var recorded ticket
				var effects int
				n := 0
				_, err = pgx.ForEachRow(rows, []any{&key, &recorded.ID, &recorded.Title, &effects}, func() error {
					n++
					require.Equal(t, 1, effects, key)
					require.Equal(t, answers[key], recorded, key)
					return nil
				})
				require.NoError(t, err)
				require.Equal(t, len(answers), n)
			})
		}
	}
}

// combinedSize is how long the unit of a combined statement is, or its answer, with a
// key as long as those of cutStatements.
func combinedSize(t *testing.T, ctx context.Context, f *fixture, proxy *faultproxy.Proxy, direction faultproxy.Direction) int64 {
	t.Helper()
	passed := func() int64 {
		seen := proxy.Snapshot()
		if direction == faultproxy.ToClient {
			return seen.BytesToClient
		}
		return seen.BytesToServer
	}
	held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: isCombined})
	pending := startStatement(ctx, f.d, call("size 0000"), leave("size 0000"))
	require.NoError(t, held.Wait(ctx))
	before := passed()
	held.Release()
	receive(t, ctx, pending).require(t)
	return passed() - before
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
			separate := newDeduper(t, f.pool, &dedup.Options{SeparateStatements: true})
			// They have not met the calls that they replay.
			stranger := newDeduper(t, f.pool, nil)
			separateStranger := newDeduper(t, f.pool, &dedup.Options{SeparateStatements: true})
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

// TestStatementWaitingLooks: a twin in another process costs one statement that
// is refused, and one round trip for each look.
func TestStatementWaitingLooks(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	f.countRuns(t)
	winner := newDeduper(t, f.db.Pool(t), nil)
	wait := func(key string, looks int) int {
		held := newGate()
		running := start(ctx, winner, call(key), (&tool{ref: key, then: held.then}).run)
		receive(t, ctx, held.entered)
		return trips(t, proxy, func() {
			counter := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: isPeek, Skip: looks - 1})
			defer counter.Disarm()
			twin := startStatement(ctx, f.d, call(key), leave(key))
			require.NoError(t, counter.Wait(ctx))
			held.release()
			receive(t, ctx, running).require(t)
			counter.Release()
			require.True(t, receive(t, ctx, twin).require(t).Replayed)
		})
	}
	_, err := dedup.DoStatement[ticket](ctx, f.d, call("warm"), leave("warm"))
	require.NoError(t, err)
	wait("warm 1", 1)
	require.Equal(t, 1+1, wait("a", 1))
	require.Equal(t, 1+5, wait("b", 5))
	require.Equal(t, 1, f.runs(t), "only the warm-up")
}
