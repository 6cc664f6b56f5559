package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// broken is a schema broken on purpose.
type broken struct {
	name string
	// sql breaks the schema of the migrations.
	sql string
	// want are the names of the problems that Check finds.
	want []string
	// left are those of them that no statement repairs.
	left []string
}

// TestCheckBroken breaks the table and its constraints, which every first call reads.
func TestCheckBroken(t *testing.T) {
	t.Parallel()
	checkBroken(t, slices.Concat(brokenTables(), brokenConstraints()))
}

func TestLongCheckBroken(t *testing.T) {
	t.Parallel()
	checkBroken(t, slices.Concat(brokenColumns(), brokenPartitions(), brokenCitus(), brokenEffect(), brokenAudit()))
}

func checkBroken(t *testing.T, all []broken) {
	t.Helper()
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t).Pool(t)
			exec(t, pool, tc.sql)

			found := problems(t, pool, nil)
			require.Equal(t, tc.want, names(found))
			for _, p := range found {
				require.Equal(t, slices.Contains(warnings, p.Name), p.Warning, p.Name)
			}
			requireSameWords(t, pool, found)
			require.Equal(t, tc.left, repair(t, pool, found))
			require.Equal(t, tc.left, names(problems(t, pool, nil)), "after the repair")
		})
	}
}

// warnings are the problems in spite of which calls work.
var warnings = []string{
	"due_index_missing", "due_index_other", "due_index_invalid",
	"audit_missing", "audit_broken", "stat_missing", "stat_broken",
}

// requireSameWords requires that a Deduper's first call reports problems that Check found, in the
// same words, and each that always breaks the promise. Check may add the recorded migration, which
// it reads from a table that a Deduper does not read.
func requireSameWords(t *testing.T, pool *pgxpool.Pool, found []migrations.Problem) {
	t.Helper()
	always := []string{
		"schema_missing", migrations.ProblemTableMissing, "not_a_table", "unlogged",
		"primary_key_missing", "primary_key_columns", "primary_key_deferrable", "primary_key_invalid",
	}
	sometimes := []string{"trigger", "rule"}
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for range 1 {
		x, err := examiner.Examine(t.Context(), conn.Conn(), "public")
		require.NoError(t, err)
		for _, p := range found {
			if slices.Contains(always, p.Name) {
				require.True(t, slices.ContainsFunc(x.Problems, func(what string) bool { return strings.HasPrefix(p.What, what) }), p.What)
			}
		}
		for _, what := range x.Problems {
			i := slices.IndexFunc(found, func(p migrations.Problem) bool { return strings.HasPrefix(p.What, what) })
			require.GreaterOrEqual(t, i, 0, what)
			require.Contains(t, append(always, sometimes...), found[i].Name)
		}
	}
}
