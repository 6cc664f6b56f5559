package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReached(t *testing.T) {
	t.Parallel()

	tt := test{lines: reached("mode: set\n" +
		"github.com/tooldedup/dedup/wait.go:22.30,24.2 1 1\n" +
		"github.com/tooldedup/dedup/wait.go:25.1,27.2 3 0\n")}
	require.True(t, tt.reaches("wait.go", 22))
	require.True(t, tt.reaches("wait.go", 24))
	require.False(t, tt.reaches("wait.go", 26), "a block that did not run")
	require.False(t, tt.reaches("retry.go", 22))
}

func TestReaching(t *testing.T) {
	t.Parallel()

	_, s := subjectSource(t)
	lines := map[string][][2]int{"subject.go": {{7, 8}}}
	tests := []*test{
		{name: "Quick", lines: lines},
		{name: "Elsewhere", lines: map[string][][2]int{"subject.go": {{20, 30}}}},
		{name: "Fails", lines: lines, fails: true},
		{name: "Unsound", lines: lines},
		{name: "Long", lines: lines},
	}
	var condition *mutant // of a case, which a test evaluates that reaches the switch
	for _, m := range s.mutants() {
		if m.line == 11 && m.kind == "negate" {
			condition = m
		}
	}
	require.NotNil(t, condition)
	require.Equal(t, []string{"Quick", "Long"}, reaching(tests, condition, nil, []string{"Unsound"}))
}

func TestEachOf(t *testing.T) {
	t.Parallel()

	workers := []*worker{{}, {}}
	t.Run("All", func(t *testing.T) {
		t.Parallel()
		var sum atomic.Int64
		require.NoError(t, eachOf(t.Context(), workers, 100, func(_ *worker, i int) error {
			sum.Add(int64(i))
			return nil
		}))
		require.Equal(t, int64(4950), sum.Load())
	})
	t.Run("StopsAtAnError", func(t *testing.T) {
		t.Parallel()
		boom := errors.New("boom")
		require.ErrorIs(t, eachOf(t.Context(), workers, 1<<30, func(*worker, int) error { return boom }), boom)
	})
	t.Run("StopsWithItsContext", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, eachOf(ctx, workers, 1<<30, func(*worker, int) error { cancel(); return nil }), context.Canceled)
	})
}
