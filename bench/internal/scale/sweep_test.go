package scale

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/server"
)

func TestLongSweep(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s, ctx := setup(t), t.Context()
	s.out = &out
	o := SweepOptions{Records: 2500, Rest: -1, Rate: 200, Clients: 2, Quiet: 200 * time.Millisecond}
	require.NoError(t, sweep(ctx, s, o))
	require.Contains(t, out.String(), "tombstones")

	pool, err := server.Pool(ctx, s.url, 4)
	require.NoError(t, err)
	defer pool.Close()
	for _, due := range []Due{Forgets, Expires} {
		row, err := s.sweepOf(ctx, pool, o, due)
		require.NoError(t, err)
		require.Positive(t, row.alone)
		require.Positive(t, row.loaded)
		require.Positive(t, row.before.Calls)
		require.Positive(t, row.after.Calls)
		require.Equal(t, row.before.Calls+row.after.Calls, row.quiet.Calls)
	}
}

// On a server of its own, whose settings it changes.
func TestGenerations(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	postgres, err := server.Start(ctx, server.Options{Fast: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, postgres.Stop(ctx)) }()
	s := stand{url: postgres.URL, say: t.Logf}
	pool, err := server.Pool(ctx, s.url, 2)
	require.NoError(t, err)
	defer pool.Close()

	all, err := s.generations(ctx, pool, SweepOptions{Generations: 2, GenerationRecords: 1500, Hold: 300 * time.Millisecond, Naptime: time.Second})
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, g := range all {
		require.EqualValues(t, 2*1500, g.full.Records, "those that stay and those that came")
		require.EqualValues(t, 1500, g.swept.Records, "those that stay")
		require.EqualValues(t, 1500, g.after.Records)
	}
	var came bool
	require.NoError(t, pool.QueryRow(ctx, "SELECT autovacuum_count > 0 FROM pg_stat_all_tables WHERE relid = 'swept.tool_dedup'::regclass").Scan(&came))
	require.True(t, came)

	var out bytes.Buffer
	writeGenerations(&out, all)
	require.Contains(t, out.String(), "generation")
}

// Nothing is reported for a sweep that left something behind or took what was
// not due.
func TestSweepAllChecksTheCounts(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), t.Context()
	pool, err := server.Pool(ctx, s.url, 2)
	require.NoError(t, err)
	defer pool.Close()
	tl, err := dueTable(ctx, pool, SweepOptions{Records: 100}, Expires)
	require.NoError(t, err)

	_, err = tl.sweepAll(ctx, SweepOptions{Records: 101}, Expires)
	require.ErrorContains(t, err, "the sweep took")
	require.ErrorContains(t, err, "Expired:100")
}

func TestSweepFlags(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"--records", "0"}, {"argument"}} {
		refused(t, SweepCommand(), args)
	}
}
