package inspect

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// The counts are found by their time, whatever else was recorded.
func TestCountsPlan(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO tool_dedup_stat SELECT now() - n * interval '1 minute', 'a', 't' || t, 'executed', 1, 1, 0 FROM generate_series(1, 14 * 24 * 60) n, generate_series(1, 3) t; ANALYZE tool_dedup_stat`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	const table = "public.tool_dedup_stat"
	for _, sql := range []string{slicesSQL(table, 1), slicesSQL(table, 48)} {
		lines, err := pool.Query(t.Context(), `EXPLAIN `+sql, pgx.QueryExecModeExec, "1 hour")
		require.NoError(t, err)
		plan, err := pgx.CollectRows(lines, pgx.RowTo[string])
		require.NoError(t, err)
		text := strings.Join(plan, "\n")
		require.Contains(t, text, "tool_dedup_stat_pkey", text)
		require.NotContains(t, text, "Seq Scan")
	}
}
