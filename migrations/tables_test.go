package migrations_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/migrations"
)

// The examiner lists every migration with the tables that it makes.
func TestTablesOfEachMigration(t *testing.T) {
	t.Parallel()

	files, err := fs.Glob(migrations.FS, "*.sql")
	require.NoError(t, err)
	var versions, listed []int64
	for _, file := range files {
		version, err := strconv.ParseInt(file[:5], 10, 64)
		require.NoError(t, err)
		versions = append(versions, version)
	}
	for _, want := range examiner.Tables() {
		listed = append(listed, want.Migrations...)
		file := files[slices.Index(versions, want.Migrations[0])]
		sql, err := fs.ReadFile(migrations.FS, file)
		require.NoError(t, err)
		require.Contains(t, string(sql), "CREATE TABLE IF NOT EXISTS "+want.Name+" (")
	}
	slices.Sort(listed)
	require.Equal(t, versions, slices.Compact(listed))
}

// TestEveryProblemIsPlanted: the tests plant each problem of the examiner, and docs/operations.md
// names it. Each constant names one.
func TestEveryProblemIsPlanted(t *testing.T) {
	t.Parallel()

	planted := map[string]bool{ // what a role may not do, in role_test.go
		"privileges_missing": true, "schema_usage_missing": true, migrations.ProblemRowSecurity: true, "read_only": true, "encoding_not_utf8": true,
	}
	for _, tc := range slices.Concat(brokenTables(), brokenConstraints(), brokenColumns(), brokenPartitions(), brokenCitus(),
		brokenEffect(), brokenAudit()) {
		for _, name := range tc.want {
			planted[name] = true
		}
	}
	runbook, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	for _, name := range problemNames(t) {
		require.True(t, planted[name], name)
		require.Contains(t, string(runbook), "`"+name+"`", "the runbook does not name it")
		delete(planted, name)
	}
	require.Empty(t, planted, "names that the examiner does not have")
	for _, name := range []string{
		migrations.ProblemTableMissing, migrations.ProblemMigrationsPending, migrations.ProblemRowSecurity, migrations.ProblemPlainTables,
	} {
		require.Contains(t, problemNames(t), name)
	}
}

// problemNames are the names in the examiner's list.
func problemNames(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob("../internal/examiner/problems_*.go")
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(`\bname: +"(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			all = append(all, match[1])
		}
	}
	for _, table := range []string{"effect", "audit", "stat"} {
		all = append(all, table+"_missing", table+"_broken")
	}
	slices.Sort(all)
	return slices.Compact(all)
}
