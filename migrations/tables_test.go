package migrations_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/migrations"
)

// The examiner's list of tables names every migration, and the file that makes each.
func TestEveryMigrationIsATables(t *testing.T) {
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
		sql, err := fs.ReadFile(migrations.FS, want.File())
		require.NoError(t, err)
		require.Contains(t, string(sql), "CREATE TABLE "+want.Name+" (")
	}
	slices.Sort(listed)
	require.Equal(t, versions, slices.Compact(listed))
}

// Every constant names a problem of the examiner's list.
func TestEveryConstantIsAProblem(t *testing.T) {
	t.Parallel()

	stating, err := filepath.Glob("../internal/examiner/problems_*.go")
	require.NoError(t, err)
	var list strings.Builder
	for _, file := range stating {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		list.Write(source)
	}
	for _, name := range []string{
		migrations.ProblemTableMissing, migrations.ProblemMigrationsPending, migrations.ProblemRowSecurity, migrations.ProblemPlainTables,
	} {
		require.Regexp(t, `\bname: +"`+name+`"`, list.String())
	}
}
