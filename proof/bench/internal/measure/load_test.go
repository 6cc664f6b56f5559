package measure_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/bench/internal/measure"
)

func TestLoadMakesTheLeastNumberOfOperations(t *testing.T) {
	t.Parallel()

	var mu sync.Mutex
	seen := map[int]int{}
	sample, err := measure.Load{Clients: 3, MinOps: 50}.Run(t.Context(), func(_ context.Context, client int) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[client]++
		return 100, nil
	})
	require.NoError(t, err)
	ops := seen[0] + seen[1] + seen[2]
	require.Equal(t, 50, ops, "no client begins another one after that")
	require.Equal(t, 100*ops, sample.Calls)
	require.Len(t, sample.Latencies, ops)
	require.Positive(t, sample.PerSecond())
}

// The time that a call keeps a processor busy is counted.
func TestLoadCountsProcessorTime(t *testing.T) {
	t.Parallel()

	sample, err := measure.Load{Clients: 1, MinOps: 2}.Run(t.Context(), func(context.Context, int) (int, error) {
		for began := used(); used() == began; { // others may have the processor for any time
			continue
		}
		return 2, nil
	})
	require.NoError(t, err)
	require.Positive(t, sample.Processor)
	require.Equal(t, float64(sample.Processor)/4, sample.ProcessorPerCall())
}

// used is the processor time that this process has used.
func used() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func TestLoadGoesOnForItsDuration(t *testing.T) {
	t.Parallel()

	// The clock of the bubble goes on while op sleeps, and at no other time.
	synctest.Test(t, func(t *testing.T) {
		load := measure.Load{Clients: 1, Duration: 20 * time.Millisecond}
		sample, err := load.Run(t.Context(), func(context.Context, int) (int, error) {
			<-time.After(7 * time.Millisecond)
			return 1, nil
		})
		require.NoError(t, err)
		require.Equal(t, 3, sample.Calls)
		require.Equal(t, 21*time.Millisecond, sample.Elapsed)
	})
}

func TestLoadRunsClientsAtTheSameTime(t *testing.T) {
	t.Parallel()

	// Each waits for the other, so one alone would never end.
	var arrived sync.WaitGroup
	arrived.Add(2)
	_, err := measure.Load{Clients: 2, MinOps: 2}.Run(t.Context(), func(context.Context, int) (int, error) {
		arrived.Done()
		arrived.Wait()
		return 1, nil
	})
	require.NoError(t, err)
}

func TestLoadEndsWithTheFirstError(t *testing.T) {
	t.Parallel()

	broken := errors.New("broken")
	var ops atomic.Int64
	_, err := measure.Load{Clients: 2, Duration: time.Hour}.Run(t.Context(), func(context.Context, int) (int, error) {
		if ops.Add(1) == 10 {
			return 0, broken
		}
		return 1, nil
	})
	require.ErrorIs(t, err, broken)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = measure.Load{Clients: 1, Duration: time.Hour}.Run(ctx, func(context.Context, int) (int, error) { return 1, nil })
	require.ErrorIs(t, err, context.Canceled)
}

func TestLoadWithoutClientsOrCalls(t *testing.T) {
	t.Parallel()

	op := func(context.Context, int) (int, error) { return 1, nil }
	_, err := measure.Load{MinOps: 1}.Run(t.Context(), op)
	require.ErrorContains(t, err, "give clients")
	_, err = measure.Load{Clients: 1}.Run(t.Context(), op)
	require.ErrorContains(t, err, "no call was made")
}

func TestCompareInterleavesAndRotates(t *testing.T) {
	t.Parallel()

	var order []int
	ops := make([]measure.Op, 3)
	for i := range ops {
		ops[i] = func(context.Context, int) (int, error) { order = append(order, i); return 10 * i, nil }
	}
	samples, err := measure.Load{Clients: 1, MinOps: 1}.Compare(t.Context(), 1, 4, ops[1:])
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 1, 2, 2, 1, 1, 2, 2, 1}, order, "warm, and four rounds")
	require.Len(t, samples, 2)
	for i, rounds := range samples {
		require.Len(t, rounds, 4)
		require.Equal(t, 10*(i+1), rounds[3].Calls)
	}
}

func TestCompareEndsWithAnError(t *testing.T) {
	t.Parallel()

	broken, runs := errors.New("broken"), 0
	fails := func(context.Context, int) (int, error) {
		if runs++; runs > 1 {
			return 0, broken
		}
		return 1, nil
	}
	_, err := measure.Load{Clients: 1, MinOps: 1}.Compare(t.Context(), 1, 4, []measure.Op{fails})
	require.ErrorIs(t, err, broken)
	require.Equal(t, 2, runs)
}

// An operation falls due even if an earlier one is unanswered. Its time includes the wait for a
// client. Operations that are due when the work ends are still made.
func TestBesideDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		const lasts = 50 * time.Millisecond
		release := make(chan struct{})
		all, err := measure.Load{Rate: 1000, Clients: 1}.Beside(t.Context(), func() error {
			defer close(release)
			return measure.Wait(t.Context(), lasts)
		}, func(context.Context, int) (int, error) { <-release; return 1, nil })
		require.NoError(t, err)
		require.Equal(t, 50, all.Calls)
		require.Equal(t, lasts, all.Elapsed)
		slices.Sort(all.Latencies)
		require.Zero(t, all.Latencies[0], "the last one")
		require.Equal(t, lasts-time.Millisecond, all.Latencies[49], "the first one waited")
	})
}

func TestBesideReturnsBothErrors(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		broken, idle := errors.New("broken"), errors.New("idle")
		load := measure.Load{Rate: 1000, Clients: 2}
		_, err := load.Beside(t.Context(), func() error { return measure.Wait(t.Context(), time.Second) },
			func(context.Context, int) (int, error) { return 0, broken })
		require.ErrorIs(t, err, broken)
		_, err = load.Beside(t.Context(), func() error { return idle }, func(context.Context, int) (int, error) { return 1, nil })
		require.ErrorIs(t, err, idle)
	})
}
