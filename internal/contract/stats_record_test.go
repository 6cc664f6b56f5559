package contract_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// recording runs a Sweeper with RecordStats. stop ends it and returns its error.
func (f *fixture) recording(t *testing.T, ctx context.Context, interval time.Duration) (stop func() error) {
	t.Helper()
	sweeper, err := dedup.NewSweeper(f.d, &dedup.SweeperOptions{Interval: interval, RecordStats: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- sweeper.Run(ctx) }()
	return func() error {
		cancel()
		return receive(t, context.WithoutCancel(ctx), ended)
	}
}

func TestSweeperRecordsStats(t *testing.T) {
	t.Parallel()

	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, nil, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			f.exec(t, `CREATE TABLE commits (level text)`)
			f.exec(t, `CREATE FUNCTION level() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO commits VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`)
			f.exec(t, `CREATE TRIGGER level AFTER INSERT OR DELETE ON tool_dedup_stat FOR EACH STATEMENT EXECUTE FUNCTION level()`)
			f.exec(t, `INSERT INTO tool_dedup_stat SELECT now() - n * interval '1 day', 'old', 't', 'executed', 1, 1, 0 FROM generate_series(10, 20) n`)
			f.exec(t, `TRUNCATE commits`)
			stop := f.recording(t, ctx, time.Millisecond)
			for _, key := range []string{"a", "b", "a", "a"} {
				_, err := dedup.Do(ctx, f.d, call(key), effect(key))
				require.NoError(t, err)
			}
			f.eventually(t, `SELECT sum(calls) FILTER (WHERE outcome = 'executed') = 2 AND sum(calls) FILTER (WHERE outcome = 'replayed') = 2 FROM tool_dedup_stat WHERE instance <> 'old'`)
			f.eventually(t, `SELECT count(*) BETWEEN 4 AND 5 FROM tool_dedup_stat WHERE instance = 'old'`)
			require.ErrorIs(t, stop(), context.Canceled)
			require.True(t, scalar[bool](t, f.bundle, `SELECT bool_and(tool = 'create_ticket' AND seconds > 0 AND waited = 0 AND instance ~ ':[0-9]+:[0-9a-f]{8}$' AND at > now() - interval '1 hour') FROM tool_dedup_stat WHERE instance <> 'old'`))
			require.Equal(t, "off", scalar[string](t, f.bundle, `SELECT string_agg(DISTINCT level, ',') FROM commits`))
			require.Equal(t, "on", scalar[string](t, f.bundle, `SHOW synchronous_commit`))
		})
	}
}

// Two Sweepers of one Deduper write each call once.
func TestSweepersOfOneDeduper(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	first, second := f.recording(t, ctx, time.Millisecond), f.recording(t, ctx, time.Millisecond)
	for i := range 20 {
		_, err := dedup.Do(ctx, f.d, call(strconv.Itoa(i)), effect("k"))
		require.NoError(t, err)
	}
	f.eventually(t, `SELECT sum(calls) >= 20 FROM tool_dedup_stat`)
	require.ErrorIs(t, first(), context.Canceled)
	require.ErrorIs(t, second(), context.Canceled)
	require.Equal(t, 20, scalar[int](t, f.bundle, `SELECT sum(calls) FROM tool_dedup_stat`))
}

// Counts of all processes that are older than an hour are added up by quarters of an hour.
func TestSweeperMergesStats(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	minutes := func(from, to int) {
		f.exec(t, `INSERT INTO tool_dedup_stat SELECT date_trunc('hour', now()) - n * interval '1 minute', instance, 't', outcome, n, 2 * n, 3 * n
		  FROM generate_series(`+strconv.Itoa(from)+`, `+strconv.Itoa(to)+`) n, unnest(ARRAY['a', 'b']) instance, unnest(ARRAY['executed', 'replayed']) outcome`)
	}
	const merged = `SELECT count(*) = 2 * $1 AND bool_and(instance = '' AND extract(epoch FROM at)::int % 900 = 0 AND seconds = 2 * calls AND waited = 3 * calls)
		AND sum(calls) = $2 FROM tool_dedup_stat WHERE at <= now() - interval '61 minutes'`
	minutes(121, 180)
	minutes(1500, 1500) // a day ago
	f.exec(t, `INSERT INTO tool_dedup_stat VALUES (now(), 'a', 't', 'executed', 1, 1, 1)`)
	stop := f.recording(t, ctx, time.Millisecond)
	sum := func(from, to int) int { return 4 * (from + to) * (to - from + 1) / 2 }
	f.eventually(t, `SELECT NOT EXISTS (SELECT FROM tool_dedup_stat WHERE at BETWEEN now() - interval '4 hours' AND now() - interval '61 minutes' AND instance <> '')`)
	f.exec(t, `DELETE FROM tool_dedup_stat WHERE at < now() - interval '1 day'`)
	require.True(t, scalar[bool](t, f.bundle, merged, 4, sum(121, 180)))
	f.exec(t, `INSERT INTO tool_dedup_stat SELECT at + interval '1 minute', 'late', tool, outcome, 1, 2, 3 FROM tool_dedup_stat WHERE instance = ''`)
	f.eventually(t, `SELECT NOT EXISTS (SELECT FROM tool_dedup_stat WHERE instance = 'late')`)
	require.True(t, scalar[bool](t, f.bundle, merged, 4, sum(121, 180)+8))
	require.ErrorIs(t, stop(), context.Canceled)
	require.Equal(t, 1, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup_stat WHERE instance = 'a'`))
}

// A writing that fails is reported with the sweep, and its counts come later.
func TestSweeperKeepsStats(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.exec(t, `ALTER TABLE tool_dedup_stat RENAME TO gone`)
	stop := f.recording(t, ctx, time.Millisecond)
	_, err := dedup.Do(ctx, f.d, call("a"), effect("a"))
	require.NoError(t, err)
	require.NoError(t, f.events.until(ctx, func(all []any) bool {
		swept := ofType[dedup.SweptData](all)
		return len(swept) > 0 && swept[len(swept)-1].StatsErr != nil
	}))
	_, err = dedup.Do(ctx, f.d, call("a"), effect("a"))
	require.NoError(t, err)
	for _, swept := range events[dedup.SweptData](f.events) {
		require.NoError(t, swept.Err, "the sweep goes on")
	}
	f.exec(t, `ALTER TABLE gone RENAME TO tool_dedup_stat`)
	f.eventually(t, `SELECT COALESCE(sum(calls), 0) = 2 FROM tool_dedup_stat`)
	require.ErrorIs(t, stop(), context.Canceled)
}

// The last counts are written when the process ends.
func TestSweeperRecordsTheLastStats(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	stop := f.recording(t, ctx, time.Hour)
	require.NoError(t, f.events.until(ctx, func(all []any) bool { return len(ofType[dedup.SweptData](all)) == 1 }))
	_, err := dedup.Do(ctx, f.d, call("a"), effect("a"))
	require.NoError(t, err)
	require.ErrorIs(t, stop(), context.Canceled)
	require.Equal(t, 1, scalar[int](t, f.bundle, `SELECT sum(calls) FROM tool_dedup_stat`))

	// Without the option nothing is.
	sweeper, err := dedup.NewSweeper(f.d, nil)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, sweeper.Run(ended), context.Canceled)
	require.Equal(t, 1, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup_stat`))
}
