package dedup

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// Counts whose answer was lost are written again as they are, and counted once.
func TestRecordedCountsAreWrittenOnce(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	d, err := New(pool, nil)
	require.NoError(t, err)
	r := &d.stats.record
	do := func(keys ...string) {
		for _, key := range keys {
			_, err := Do(t.Context(), d, Call{Scope: "acme", Tool: "book", Key: key}, func(context.Context, pgx.Tx) (int, error) { return 1, nil })
			require.NoError(t, err)
		}
	}
	recorded := func() (calls, rows int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT COALESCE(sum(calls), 0), count(*) FROM tool_dedup_stat`).Scan(&calls, &rows))
		return calls, rows
	}
	require.NoError(t, d.recordStats(t.Context(), recordTimeout))
	calls, rows := recorded()
	require.Zero(t, calls+rows, "a process that rests writes nothing")

	do("a", "b", "a")
	r.take(time.Now(), d.Stats().Calls)
	lost := *r.pending
	require.NoError(t, d.recordStats(t.Context(), recordTimeout))
	r.pending = &lost
	require.NoError(t, d.recordStats(t.Context(), recordTimeout))
	calls, rows = recorded()
	require.Equal(t, []int{3, 2}, []int{calls, rows}, "executed and replayed")

	// Counts that cannot be written stay pending, and later counts follow them.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	do("c")
	require.ErrorIs(t, d.recordStats(ended, recordTimeout), context.Canceled)
	r.take(time.Now(), d.Stats().Calls)
	do("d", "d")
	require.NoError(t, d.recordStats(t.Context(), recordTimeout))
	calls, rows = recorded()
	require.Equal(t, []int{6, 5}, []int{calls, rows})
	require.NoError(t, d.recordStats(t.Context(), recordTimeout))
	calls, rows = recorded()
	require.Equal(t, []int{6, 5}, []int{calls, rows})
}

// Two Dedupers of one process never write the same row.
func TestInstancesDiffer(t *testing.T) {
	t.Parallel()

	first, second := newInstance(), newInstance()
	require.NotEqual(t, first, second)
}
