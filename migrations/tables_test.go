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

// Every problem that the examiner states has a constant, and every constant its problem.
func TestEveryProblemHasAName(t *testing.T) {
	t.Parallel()

	names := func(pattern string, files ...string) []string {
		var all []string
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
				all = append(all, match[1])
			}
		}
		require.NotEmpty(t, all, pattern)
		slices.Sort(all)
		return slices.Compact(all)
	}
	const source = "../internal/examiner"
	stating, err := filepath.Glob(source + "/problems*.go")
	require.NoError(t, err)
	stated := append(names(`\bproblem\("(\w+)"`, stating...), names(`\b(?:missing|broken): +"(\w+)"`, source+"/tables.go")...)
	require.ElementsMatch(t, names(`(?m)^\tProblem\w+ += "(\w+)"$`, "problem_names.go"), stated)
}
