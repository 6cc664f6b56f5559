package contract_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
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
		// First, so that no cancel request of another fault is on its way: see afterCancel.
		{faultproxy.Fault{Kind: faultproxy.Delayed}, recovered, either},
		{faultproxy.Fault{Kind: faultproxy.ReplyReset}, recovered, recovered},
		{faultproxy.Fault{Kind: faultproxy.ReplyClosed}, recovered, recovered},
		{faultproxy.Fault{Kind: faultproxy.ReplyCut}, recovered, recovered},
		{faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Delay: soon}, plainly, plainly},
		{faultproxy.Fault{Kind: faultproxy.Blackhole}, recovered, hung},
		{faultproxy.Fault{Kind: faultproxy.Dropped}, again, again},
		{faultproxy.Fault{Kind: faultproxy.CutBeforeSync}, recovered, again}, // COMMIT is done at Execute, a statement at Sync
		{faultproxy.Fault{Kind: faultproxy.Hold, Delay: soon}, plainly, plainly},
		{cutAfter(faultproxy.ToServer, 40), again, again},
		{cutAfter(faultproxy.ToClient, 0), recovered, recovered},
		{cutAfter(faultproxy.ToClient, 60), recovered, recovered},
	}
}

// breakable is a way to call that a fault can hit where it commits.
type breakable struct {
	name string
	way  way
	batchWay
	at func(faultproxy.Unit) bool
	// entire is true where the unit that is hit is the entire call.
	entire bool
}

func breakables(mode pgx.QueryExecMode) []breakable {
	lock := profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: mode}
	claim := lock
	claim.order = claimFirst
	return []breakable{
		{"Do", byDo, batchWay{profile: lock}, faultproxy.AtCommit, false},
		{"Do", byDo, batchWay{profile: claim}, faultproxy.AtCommit, false},
		{"DoStatement", byStatement, batchWay{profile: lock}, faultproxy.AtCommit, false},
		{"DoBatch", byBatchOfTwo, batchWay{profile: lock}, faultproxy.AtCommit, false},
		{"DoBatch", byBatchOfTwo, batchWay{profile: claim}, faultproxy.AtCommit, false},
	}
}

// TestFaults lets every fault hit the unit that commits a call, in every way.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		for _, b := range breakables(mode) {
			b.run(t)
		}
	}
}

// TestLongFaults is TestFaults in the other exec modes.
func TestLongFaults(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec} {
		for _, b := range breakables(mode) {
			b.run(t)
		}
	}
}

func (b breakable) run(t *testing.T) {
	t.Run(b.name+"-"+b.String(), func(t *testing.T) {
		t.Parallel()
		ctx, f, proxy := proxied(t, b.profile, &dedup.Options{Retry: quickRetry})
		direct, hasty := f.direct(t), f.hasty(t)
		_, err := b.way(ctx, f.d, call("warm"))
		require.NoError(t, err)
		for i, fault := range everyFault() {
			name := fmt.Sprintf("%d %s", i, fault.Kind)
			want := fault.commit
			switch {
			case b.entire && fault.Kind == faultproxy.CutBeforeSync && b.mode == pgx.QueryExecModeSimpleProtocol:
				want = recovered // there is no Sync to cut off
			case b.entire:
				want = fault.statement
			}
			fault.Where = b.at
			armed := proxy.Arm(fault.Fault)
			calling, cancel, d, before := ctx, context.CancelFunc(func() {}), f.d, f.runs(t)
			switch {
			case want == hung: // a combined statement has only the statement's limit
				calling, cancel = cancelledAt(ctx, armed)
			case fault.Kind == faultproxy.Blackhole:
				d = hasty
			}
			var releasing sync.WaitGroup
			if fault.Kind == faultproxy.Delayed {
				releasing.Go(func() { afterCancel(t, proxy, armed) })
			}
			result, err := b.way(calling, d, call(name))
			cancel()
			releasing.Wait()
			require.Equal(t, 1, armed.Count(), "%s was applied", name)
			if want == hung {
				require.ErrorIs(t, err, dedup.ErrOutcomeUnknown, name)
				require.ErrorIs(t, err, context.Canceled, name)
				require.True(t, dedup.IsRetryable(err))
			} else {
				require.NoError(t, err, name)
			}
			require.NoError(t, armed.WaitSettled(ctx))

			replay, err := b.way(ctx, direct, call(name))
			require.NoError(t, err, name)
			require.True(t, replay.Replayed, name)
			require.Equal(t, 1, f.effects(t, name), name)
			if want == hung {
				continue
			}
			require.Equal(t, result.Value, replay.Value, name)
			require.True(t, result.CreatedAt.Equal(replay.CreatedAt), name)
			if want != either {
				require.Equal(t, want == recovered, result.Recovered, name)
				require.Equal(t, want == recovered, result.Replayed, name)
			}
			if b.name == "Do" {
				require.Equal(t, map[bool]int{true: 2, false: 1}[want == again], f.runs(t)-before, "runs of %s", name)
			}
		}
		calls := 1 + len(everyFault())
		if b.name == "DoBatch" {
			calls *= 2
		}
		f.exactly(t, calls)
	})
}

// afterCancel delivers a late COMMIT when the server has handled the request with which pgx cancels
// the statement of a connection that breaks: a request that comes after the COMMIT may cancel that.
func afterCancel(t *testing.T, proxy *faultproxy.Proxy, late *faultproxy.Armed) {
	assert.Eventually(t, func() bool { return proxy.Snapshot().Cancels > 0 }, time.Minute, time.Millisecond)
	late.Release()
}

// atChunk aims at the unit that writes the records of a chunk.
func atChunk(u faultproxy.Unit) bool {
	return len(u.Executes) > 0 && faultproxy.AtSQL(`"tool_dedup" (scope, tool, key`)(u) || faultproxy.AtSQL(`"tool_dedup" AS held`)(u)
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
