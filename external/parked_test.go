package external_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
)

// fillEffects writes 20,000 operations that are done, and 30 that need attention: 20 of one
// moment are parked, and 10 later ones have happened twice.
const fillEffects = `
INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, twice, created_at, changed_at)
SELECT 'acme', 'charge', 'd' || n, 'done', n, 0, false, ''::bytea, NULL, now(), now() FROM generate_series(1, 20000) n
UNION ALL
SELECT 'acme', 'charge', 'p' || n, 'parked', n, 0, false, ''::bytea, NULL, now(), timestamptz '2026-01-01' FROM generate_series(1, 20) n
UNION ALL
SELECT 'acme', 'charge', 't' || n, 'done', n, 0, false, ''::bytea, 'ch_2', now(), timestamptz '2026-01-02' + n * interval '1 microsecond' FROM generate_series(1, 10) n`

// TestParkedPages reads pages that have every operation once, in the transaction it is given.
func TestParkedPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.pool.Exec(f.ctx, fillEffects)
	require.NoError(t, err)
	seen := map[string]bool{}
	var last external.Operation
	pages := 0
	require.NoError(t, pgx.BeginTxFunc(f.ctx, f.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for {
			ops, err := f.tools.Parked(f.ctx, tx, last, 7)
			require.NoError(t, err)
			for _, op := range ops {
				require.False(t, seen[op.Key], op.Key)
				require.False(t, op.ChangedAt.Before(last.ChangedAt))
				seen[op.Key], last = true, op
			}
			if len(ops) == 0 {
				return nil
			}
			pages++
		}
	}))
	require.Len(t, seen, 30)
	require.Equal(t, 5, pages)
}

// TestParkedReadsItsIndexOnly is a page far into a table whose operations are nearly all done.
func TestParkedReadsItsIndexOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.pool.Exec(f.ctx, fillEffects+"; ANALYZE tool_effect", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	rows, err := f.pool.Query(f.ctx, "EXPLAIN "+external.ParkedSQL(f.tools), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "acme", "charge", "p1", 7)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	plan := strings.Join(lines, "\n")
	require.Contains(t, plan, "tool_effect_attention")
	require.Contains(t, plan, "Index Cond: (changed_at >=")
	require.NotContains(t, plan, "Seq Scan")
}
