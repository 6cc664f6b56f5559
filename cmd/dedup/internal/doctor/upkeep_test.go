package doctor_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// A large table is read by its indexes alone.
func TestEffectsAreReadByTheirIndexes(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	exec(t, db.URL, `INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at, forget_at)
		SELECT 'acme', 'pay', 'k' || n, 'done', n, 0, false, '', now(), now(), now() + interval '30 days' FROM generate_series(1, 50000) n`)
	exec(t, db.URL, `ANALYZE tool_effect`)
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	all, given := doctor.EffectsSQL("public")
	for _, sql := range all {
		rows, err := conn.Query(t.Context(), "EXPLAIN "+sql, given)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, line := range lines {
			require.NotContains(t, line, "Seq Scan", lines)
		}
	}
}
