package counts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/cmd/dedup/internal/counts"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// outcome is how the program ended.
type outcome struct {
	code        int
	out, errOut string
}

func stats(ctx context.Context, url string, args ...string) outcome {
	var out, errOut bytes.Buffer
	args = append([]string{"stats", "--database-url", url}, args...)
	code := cli.Run(ctx, args, cli.Streams{Out: &out, Err: &errOut}, counts.Command())
	return outcome{code, out.String(), errOut.String()}
}

// row is a line of --json.
type row struct {
	Tool, Outcome               string
	Calls, Executed, Duplicates int64
	Rate                        float64 `json:"duplicate_rate"`
	Seconds, Waited             float64
	Estimate                    bool
	Records                     int64
}

func rows(t *testing.T, got outcome) (all []row) {
	t.Helper()
	require.Equal(t, exit.OK, got.code, got.errOut)
	for line := range strings.Lines(got.out) {
		var one row
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		all = append(all, one)
	}
	return all
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

const recorded = `INSERT INTO tool_dedup_stat (at, instance, tool, outcome, calls, seconds, waited) VALUES
	(now() - interval '1 hour', 'a', 'refund', 'executed', 60, 6, 0),
	(now() - interval '2 hours', 'b', 'refund', 'refused', 10, 1, 0),
	(now() - interval '1 hour', 'a', 'refund', 'replayed', 20, 1, 0.5),
	(now() - interval '1 hour', 'a', 'refund', 'recovered', 4, 1, 0),
	(now() - interval '1 hour', 'a', 'refund', 'refusal_replayed', 1, 1, 0),
	(now() - interval '1 hour', 'a', 'refund', 'unknown', 5, 0, 0),
	(now() - interval '3 days', 'a', 'refund', 'executed', 1000, 6, 0),
	(now() - interval '1 hour', 'a', 'it''s', 'executed', 1, 0.25, 0)`

func TestStats(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	pool := db.Pool(t)
	exec(t, pool, recorded)
	all := rows(t, stats(t.Context(), db.URL, "--json"))
	require.Len(t, all, 2)
	require.Equal(t, row{Tool: "refund", Calls: 100, Executed: 70, Duplicates: 25, Rate: 0.25, Seconds: 0.1, Waited: 0.005}, all[0])
	require.EqualValues(t, 1099, rows(t, stats(t.Context(), db.URL, "--json", "--since", "336h"))[0].Calls+all[1].Calls-2)
	got := stats(t.Context(), db.URL)
	require.Empty(t, got.errOut)
	require.Equal(t, `refund
  calls         100
  executed      70
  duplicates    25 (25.0 %)
  on average    100ms, of which 5ms waiting for twins
'it'\''s'
  calls         1
  executed      1
  duplicates    0 (0.0 %)
  on average    250ms, of which 0s waiting for twins
`, got.out)

	all = rows(t, stats(t.Context(), db.URL, "--by", "outcome", "--json"))
	require.Len(t, all, 7)
	require.Equal(t, []any{"refund", "executed", int64(60)}, []any{all[0].Tool, all[0].Outcome, all[0].Calls})
	require.Contains(t, stats(t.Context(), db.URL, "--by", "outcome").out, "refund: unknown\n  calls         5\n")

	require.Contains(t, stats(t.Context(), db.URL, "--since", "10m").errOut, "Nothing was recorded in the last 10m,")
	for _, args := range [][]string{{"x"}, {"--since", "0s"}, {"--since", "337h"}, {"--by", "scope"}, {"--timeout", "0s"}} {
		got := stats(t.Context(), db.URL, args...)
		require.Equal(t, exit.Misused, got.code, args)
		require.Contains(t, got.errOut, "--help` for help")
	}
}

// Without recorded counts the planner's statistics are all there is, and are marked.
func TestEstimates(t *testing.T) {
	t.Parallel()

	fill := `INSERT INTO tool_dedup SELECT 's' || n % 10, CASE WHEN n % 10 = 0 THEN 'rare' ELSE 'often' END, 'k' || n, ''::bytea, NULL, 'done', '1', now(), now(), now() FROM generate_series(1, 1000) n`
	for name, prepare := range map[string]string{
		"Plain":          ``,
		"WithoutTheStat": `DROP TABLE tool_dedup_stat`,
		"Partitioned": `ALTER TABLE tool_dedup RENAME TO old; CREATE TABLE tool_dedup (LIKE old) PARTITION BY HASH (scope);
			CREATE TABLE p0 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE p1 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			pool := db.Pool(t)
			if prepare != "" {
				exec(t, pool, prepare)
			}
			exec(t, pool, `ALTER TABLE `+map[bool]string{true: "p0", false: "tool_dedup"}[name == "Partitioned"]+` SET (autovacuum_enabled = false)`)
			if name != "Partitioned" {
				got := stats(t.Context(), db.URL)
				require.Equal(t, exit.OK, got.code)
				require.Empty(t, got.out)
				require.Contains(t, got.errOut, "no ANALYZE of tool_dedup has run")
			}
			exec(t, pool, fill)
			exec(t, pool, `ANALYZE tool_dedup`)
			got := stats(t.Context(), db.URL)
			require.Equal(t, exit.OK, got.code, got.errOut)
			require.Equal(t, "all tools\n  records       ~1000\noften\n  records       ~900\nrare\n  records       ~100\n", got.out)
			require.Contains(t, got.errOut, "These are estimates")
			all := rows(t, stats(t.Context(), db.URL, "--json"))
			require.Equal(t, row{Tool: "often", Estimate: true, Records: 900}, all[1])
		})
	}

	empty := stats(t.Context(), pgtest.NewEmpty(t).URL)
	require.Equal(t, exit.Failed, empty.code)
	require.Contains(t, empty.errOut, "`dedup migrate up` makes what is missing")
}
