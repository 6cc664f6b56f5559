package doctor_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ids are those that a source file declares as constants.
func ids(t *testing.T, file, prefix string) []string {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	var all []string
	for _, match := range regexp.MustCompile(`(?m)^\t`+prefix+`\w+\s+= "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		all = append(all, match[1])
	}
	require.NotEmpty(t, all, file)
	return all
}

const root = "../../../.."

// Every error and warning that there is has a scenario that brings it about, and
// stands in the runbook.
func TestEveryFindingIsCovered(t *testing.T) {
	t.Parallel()

	own := ids(t, "finding.go", "ID")
	schema := ids(t, filepath.Join(root, "migrations/problem_names.go"), "Problem")
	brought := map[string]bool{}
	for _, sc := range scenarios() {
		for _, id := range append(slices.Clone(sc.errors), sc.warnings...) {
			brought[id] = true
		}
	}
	runbook, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	require.NoError(t, err)
	for _, id := range append(own, schema...) {
		require.True(t, brought[id], "no scenario brings about %s", id)
		require.Contains(t, string(runbook), "`"+id+"`", "the runbook does not name it")
		delete(brought, id)
	}
	require.Empty(t, brought, "ids that nothing declares")
}

// What is sound or not readable has an id too; the runbook lists those.
func TestEveryCheckIsNamed(t *testing.T) {
	t.Parallel()

	runbook, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	require.NoError(t, err)
	source, err := os.ReadFile("examine.go")
	require.NoError(t, err)
	matches := regexp.MustCompile(`(?m)^\t\t\{"(\w+)", check`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, matches)
	for _, match := range matches {
		require.Contains(t, string(runbook), "`"+match[1]+"`")
	}
}
