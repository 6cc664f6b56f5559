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

// These tests break what carries a call's record: every fault once, and a cut behind its bytes.

// The answer to a call that has met a fault.
const (
	plainly   = iota // it was answered
	recovered        // it went through, and its answer was lost
	again            // it did not go through
	hung             // nothing came back until the caller gave up
	either           // it goes through or comes too late
)

// wireFault is a fault with the answers to two calls that meet it: one whose COMMIT is a
// statement of the unit that is hit, and one that is that unit.
type wireFault struct {
	faultproxy.Fault
	commit, statement int
}

func everyFault() []wireFault {
	const soon = 20 * time.Millisecond
	cutAfter := func(direction faultproxy.Direction, bytes int64) faultproxy.Fault {
		return faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: direction, Bytes: bytes}
	}
	return []wireFault{
		{faultproxy.Fault{Kind: faultproxy.ReplyReset}, recovered, recovered},
		{faultproxy.Fault{Kind: faultproxy.ReplyClosed}, recovered, recovered},
		{faultproxy.Fault{Kind: faultproxy.ReplyCut}, recovered, recovered},
		{faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Delay: soon}, plainly, plainly},
		{faultproxy.Fault{Kind: faultproxy.Blackhole}, recovered, hung},
		{faultproxy.Fault{Kind: faultproxy.Dropped}, again, again},
		{faultproxy.Fault{Kind: faultproxy.CutBeforeSync}, recovered, again}, // COMMIT is done at Execute, a statement at Sync
		{faultproxy.Fault{Kind: faultproxy.Delayed, Delay: soon}, recovered, either},
		{faultproxy.Fault{Kind: faultproxy.Hold, Delay: soon}, plainly, plainly},
		{cutAfter(faultproxy.ToServer, 40), again, again},
		{cutAfter(faultproxy.ToClient, 0), recovered, recovered},
		{cutAfter(faultproxy.ToClient, 60), recovered, recovered},
	}
}

// TestCommitFaults lets every fault hit the unit that carries the COMMIT.
func TestCommitFaults(t *testing.T) {
	t.Parallel()
	commitFaults(t, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol)
}

// TestLongCommitFaults is TestCommitFaults in the other exec modes.
func TestLongCommitFaults(t *testing.T) {
	t.Parallel()
	commitFaults(t, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec)
}

func commitFaults(t *testing.T, modes ...pgx.QueryExecMode) {
	t.Helper()
	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		for _, mode := range modes {
			p := profile{order: order, isolation: pgx.ReadCommitted, mode: mode}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
				direct, hasty := f.direct(t), f.hasty(t)
				for i, fault := range everyFault() {
					name := fmt.Sprintf("%d %s", i, fault.Kind)
					fault.Where = faultproxy.AtCommit
					armed := proxy.Arm(fault.Fault)
					e := &tool{ref: name}
					d := f.d
					if fault.Kind == faultproxy.Blackhole {
						d = hasty
					}
					result, err := dedup.Do(ctx, d, call(name), e.run)
					require.NoError(t, err, name)
					require.Equal(t, 1, armed.Count(), "%s was applied", name)
					require.NoError(t, armed.WaitSettled(ctx))

					replay, err := dedup.Do(ctx, direct, call(name), e.run)
					require.NoError(t, err, name)
					require.True(t, replay.Replayed, name)
					require.Equal(t, result.Value, replay.Value, name)
					require.True(t, result.CreatedAt.Equal(replay.CreatedAt), name)
					require.Equal(t, 1, f.effects(t, name), name)

					runs := 1
					if fault.commit == again {
						runs = 2
					}
					require.EqualValues(t, runs, e.runs.Load(), "runs of %s", name)
					require.Equal(t, ticket{ID: runs, Title: name}, result.Value)
					require.Equal(t, fault.commit == recovered, result.Recovered, name)
					require.Equal(t, fault.commit == recovered, result.Replayed, name)
				}
				require.Equal(t, len(everyFault()), f.records(t))
			})
		}
	}
}

// TestWithoutDedupCommitFaultsDouble is the control of TestCommitFaults: the
// same loss, answered by the naive retry.
func TestWithoutDedupCommitFaultsDouble(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
	e := &tool{ref: "k"}
	for range 2 {
		err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
			_, err := e.run(ctx, tx)
			return err
		})
		if err == nil {
			break
		}
	}
	require.Equal(t, 2, f.effects(t, "k"))
}

// TestStatementFaults lets every fault hit the unit that is the entire call.
func TestStatementFaults(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, profile{isolation: pgx.ReadCommitted, mode: mode}, &dedup.Options{Retry: quickRetry})
			f.countRuns(t)
			direct := f.direct(t)
			for i, fault := range everyFault() {
				want := fault.statement
				if fault.Kind == faultproxy.CutBeforeSync && mode == pgx.QueryExecModeSimpleProtocol {
					want = recovered // there is no Sync to cut off
				}
				name := fmt.Sprintf("%d %s", i, fault.Kind)
				fault.Where = isCombined
				armed := proxy.Arm(fault.Fault)
				calling, cancel := ctx, context.CancelFunc(func() {})
				if want == hung {
					calling, cancel = cancelledAt(ctx, armed)
				}
				result, err := dedup.DoStatement[ticket](calling, f.d, call(name), leave(name))
				cancel()
				require.Equal(t, 1, armed.Count(), "%s was applied", name)
				if want == hung {
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
				if want != hung {
					require.Equal(t, result.Value, replay.Value, name)
					require.True(t, result.CreatedAt.Equal(replay.CreatedAt), name)
				}
				if want < hung {
					require.Equal(t, want == recovered, result.Recovered, name)
					require.Equal(t, want == recovered, result.Replayed, name)
				}
			}
			require.Equal(t, len(everyFault()), f.records(t))
		})
	}
}

// TestBatchFaults lets every fault hit the unit that carries a chunk's effects or
// its COMMIT.
func TestBatchFaults(t *testing.T) {
	t.Parallel()
	batchFaults(t, shortBatchWays())
}

func TestLongBatchFaults(t *testing.T) {
	t.Parallel()
	batchFaults(t, batchWays())
}

func batchFaults(t *testing.T, ways []batchWay) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, w.profile, &dedup.Options{Retention: apart(w.separate), Retry: quickRetry})
			hasty := f.hasty(t)
			f.exec(t, fixtureSQL)
			run := func(ctx context.Context, d *dedup.Deduper, prefix string, seen func(dedup.BatchOutcome[ticket])) {
				for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(singles(prefix, 5)), nil) {
					seen(out)
				}
			}
			run(ctx, f.d, "warm", func(out dedup.BatchOutcome[ticket]) { require.NoError(t, out.Err) })
			keys := 5
			for i, fault := range everyFault() {
				name := fmt.Sprintf("%d %s", i, fault.Kind)
				fault.Where = atChunk
				armed := proxy.Arm(fault.Fault)
				answers := map[string]dedup.BatchOutcome[ticket]{}
				calling, cancel, d := ctx, context.CancelFunc(func() {}), f.d
				if fault.Kind == faultproxy.Blackhole {
					// A combined statement has no limit of its own: the caller ends it.
					calling, cancel = cancelledAt(ctx, armed)
					d = hasty
				}
				run(calling, d, name, func(out dedup.BatchOutcome[ticket]) {
					if out.Err != nil {
						require.True(t, dedup.IsRetryable(out.Err), "%s: %v", name, out.Err)
					}
					answers[out.Call.Key] = out
				})
				cancel()
				require.Equal(t, 1, armed.Count(), name)
				require.NoError(t, armed.WaitSettled(ctx))
				armed.Release()
				keys += 5
				run(ctx, f.d, name, func(out dedup.BatchOutcome[ticket]) {
					require.NoError(t, out.Err, name)
					if before := answers[out.Call.Key]; before.Err == nil {
						require.True(t, out.Result.Replayed, name)
						require.Equal(t, before.Result.Value, out.Result.Value, name)
						require.True(t, before.Result.CreatedAt.Equal(out.Result.CreatedAt), name)
					}
				})
				f.exactly(t, keys)
			}
		})
	}
}

// atChunk aims at the unit that writes the records of a chunk.
func atChunk(u faultproxy.Unit) bool {
	return len(u.Executes) > 0 && faultproxy.AtSQL(`"tool_dedup" (scope, tool, key`)(u) || faultproxy.AtSQL(`"tool_dedup" AS held`)(u)
}

// TestCuts cuts the connection behind every 31st byte of a call and of its answer, in pgx's
// default mode.
func TestCuts(t *testing.T) {
	t.Parallel()
	for _, w := range cutWays {
		w.cut(t, pgx.QueryExecModeCacheStatement, func(int64) int64 { return 31 })
	}
}

// TestLongCuts cuts a statement behind each byte in pgx's default mode, and at every seventh byte
// in the others; a batch in a hundred places. The campaign every-byte of `proof chaos` cuts behind
// each byte.
func TestLongCuts(t *testing.T) {
	t.Parallel()
	for _, w := range cutWays {
		for _, mode := range execModes {
			w.cut(t, mode, func(bytes int64) int64 {
				switch {
				case w.calls > 1:
					return max(7, bytes/120)
				case mode == pgx.QueryExecModeCacheStatement:
					return 1
				default:
					return max(7, bytes/240) // they send the text as well
				}
			})
		}
	}
}

// cutWay makes some calls in one trip.
type cutWay struct {
	name  string
	calls int
	make  answersOf
}

var cutWays = []cutWay{{"Statement", 1, byStatements}, {"Batch", 2, byBatch}}

// cut cuts the connection behind a byte of the calls or of their answers, and step bytes later.
func (w cutWay) cut(t *testing.T, mode pgx.QueryExecMode, step func(bytes int64) int64) {
	t.Helper()
	for _, direction := range []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient} {
		t.Run(fmt.Sprintf("%s-%s-%d", w.name, mode, direction), func(t *testing.T) {
			t.Parallel()
			p := profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: mode}
			ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry}, poolOfOne)
			f.exec(t, fixtureSQL)
			direct, made := f.direct(t), 0
			next := func() []dedup.StatementCall {
				made++
				return singles(fmt.Sprintf("k%05d", made), w.calls)
			}
			run := func(calls []dedup.StatementCall) []ticket {
				got, err := w.make(ctx, f.d, calls)
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
			require.Greater(t, bytes, int64(50))
			for k := int64(0); k < bytes; k += step(bytes) {
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
				replay, err := w.make(ctx, direct, calls)
				require.NoError(t, err)
				require.Equal(t, got, replay, "cut behind byte %d of %d", k, bytes)
			}
			f.exactly(t, w.calls*made)
		})
	}
}
