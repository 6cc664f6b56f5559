package contract_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestStatsCount: calls are counted by tool and outcome, also where no tracer listens.
func TestStatsCount(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	fine := func(context.Context, pgx.Tx) (int, error) { return 1, nil }
	for _, key := range []string{"a", "a", "a", "b"} {
		_, err := dedup.Do(ctx, f.d, call(key), fine)
		require.NoError(t, err)
	}
	other := call("a")
	other.Tool = "another"
	_, err := dedup.Do(ctx, f.d, other, fine)
	require.NoError(t, err)

	stats := f.d.Stats()
	require.WithinDuration(t, time.Now(), stats.Since, time.Hour)
	require.Len(t, stats.Calls, 3)
	for i, want := range []dedup.CallStats{
		{Tool: "another", Outcome: dedup.OutcomeExecuted, Calls: 1},
		{Tool: call("").Tool, Outcome: dedup.OutcomeExecuted, Calls: 2},
		{Tool: call("").Tool, Outcome: dedup.OutcomeReplayed, Calls: 2},
	} {
		require.Positive(t, stats.Calls[i].Duration)
		want.Duration = stats.Calls[i].Duration
		require.Equal(t, want, stats.Calls[i])
	}
}

// TestStatsInFlight: unfinished calls are listed, oldest first, and the time that a twin waits is
// counted.
func TestStatsInFlight(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	inside, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error)
	run := func() {
		_, err := dedup.Do(ctx, f.d, call("slow"), func(context.Context, pgx.Tx) (int, error) {
			close(inside)
			<-release
			return 1, nil
		})
		ended <- err
	}
	go run()
	<-inside
	go run() // its twin
	require.Eventually(t, func() bool { return len(f.d.Stats().InFlight) == 2 }, 10*time.Minute, time.Millisecond)
	in := f.d.Stats().InFlight
	require.Equal(t, "Do", in[0].Func)
	require.Equal(t, "slow", in[0].Key)
	require.Equal(t, dedup.KeyHash("slow"), in[0].KeyHash)
	require.False(t, in[1].StartedAt.Before(in[0].StartedAt))
	close(release)
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	require.Empty(t, f.d.Stats().InFlight)
	replayed := f.d.Stats().Calls[1]
	require.Equal(t, dedup.OutcomeReplayed, replayed.Outcome)
	require.Positive(t, replayed.Waited)
	require.LessOrEqual(t, replayed.Waited, replayed.Duration)
}

// TestStatsAreBounded: callers that make up names of tools cannot fill the memory.
func TestStatsAreBounded(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	do := func(tool string) {
		c := call("") // which is invalid, and counted all the same
		c.Tool = tool
		_, err := dedup.Do(ctx, f.d, c, func(context.Context, pgx.Tx) (int, error) { return 1, nil })
		require.ErrorIs(t, err, dedup.ErrInvalid)
	}
	do(strings.Repeat("x", 256))
	do("")
	for i := range 200 + 10 {
		do(fmt.Sprint("tool-", i))
	}
	do("tool-0")
	calls := map[string]int64{}
	for _, of := range f.d.Stats().Calls {
		require.Equal(t, dedup.OutcomeInvalid, of.Outcome)
		calls[of.Tool] += of.Calls
	}
	require.Len(t, calls, 200+1)
	require.EqualValues(t, 12, calls["_other"])
	require.EqualValues(t, 2, calls["tool-0"])
}
