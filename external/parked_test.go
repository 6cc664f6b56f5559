package external_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
)

// fillEffects writes 20,000 operations that are done, 30 that need an operator, and 30 that are
// open. Of the 30 that need an operator, 20 were parked at the same time, and 10 later ones
// happened twice. Of the 30 that are open, 20 have the same age.
const fillEffects = `
INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, twice, due_at, created_at, changed_at)
SELECT 'acme', 'charge', 'd' || n, 'done', n, 0, false, ''::bytea, NULL, NULL::timestamptz, now(), now() FROM generate_series(1, 20000) n
UNION ALL
SELECT 'acme', 'charge', 'p' || n, 'parked', n, 0, false, ''::bytea, NULL, NULL, now(), timestamptz '2026-01-01' FROM generate_series(1, 20) n
UNION ALL
SELECT 'acme', 'charge', 't' || n, 'done', n, 0, false, ''::bytea, 'ch_2', NULL, now(), timestamptz '2026-01-02' + n * interval '1 microsecond' FROM generate_series(1, 10) n
UNION ALL
SELECT 'acme', 'charge', 'o' || n, CASE WHEN n % 2 = 0 THEN 'pending' ELSE 'running' END, n, 0, false, ''::bytea, NULL, now(),
       timestamptz '2026-01-01' + greatest(n - 20, 0) * interval '1 microsecond', now() FROM generate_series(1, 30) n`

// TestPages reads pages of both lists in a given transaction. They have every operation once, the
// oldest first. A page far into a table of done operations reads only an index.
func TestPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.pool.Exec(f.ctx, fillEffects+"; ANALYZE tool_effect", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	require.NoError(t, pgx.BeginTxFunc(f.ctx, f.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		pagesOf(t, func(op external.Operation) time.Time { return op.ChangedAt }, func(after external.Operation) ([]external.Operation, error) {
			return f.tools.Parked(f.ctx, tx, external.List{After: after, Limit: 7})
		})
		pagesOf(t, func(op external.Operation) time.Time { return op.CreatedAt }, func(after external.Operation) ([]external.Operation, error) {
			return f.tools.Open(f.ctx, tx, external.List{After: after, Limit: 7})
		})
		return nil
	}))

	rows, err := f.pool.Query(f.ctx, "EXPLAIN "+external.ParkedSQL(f.tools), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "acme", "charge", "p1", 7, []string(nil))
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	plan := strings.Join(lines, "\n")
	require.Contains(t, plan, "tool_effect_attention")
	require.Contains(t, plan, "Index Cond: (changed_at >=")
	require.NotContains(t, plan, "Seq Scan")
}

func pagesOf(t *testing.T, at func(external.Operation) time.Time, page func(after external.Operation) ([]external.Operation, error)) {
	t.Helper()
	seen := map[string]bool{}
	var last external.Operation
	for range 5 {
		ops, err := page(last)
		require.NoError(t, err)
		require.NotEmpty(t, ops)
		for _, op := range ops {
			require.False(t, seen[op.Key], op.Key)
			require.False(t, at(op).Before(at(last)))
			seen[op.Key], last = true, op
		}
	}
	require.Len(t, seen, 30)
	ops, err := page(last)
	require.NoError(t, err)
	require.Empty(t, ops)
}
