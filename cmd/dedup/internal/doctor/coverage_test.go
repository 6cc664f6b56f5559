package doctor_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ids are those that source files declare.
func ids(t *testing.T, pattern string, files ...string) []string {
	t.Helper()
	var all []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
			all = append(all, match[1])
		}
	}
	require.NotEmpty(t, all)
	slices.Sort(all)
	return slices.Compact(all)
}

const root = "../../../.."

// own are the source files of the table of checks.
func own() []string {
	return []string{"settings.go", "replication.go", "citus.go", "schema.go", "upkeep.go", "pooler.go"}
}

// Every error and warning that there is has a scenario that brings it about, and
// stands in the runbook.
func TestEveryFindingIsCovered(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob(filepath.Join(root, "internal/examiner/problems_*.go"))
	require.NoError(t, err)
	wanted := slices.Concat(
		ids(t, `(?:\bid: |\bID: |unsafe\(|judge\()"(\w+)",\s(?:severity: |Severity: )?(?:SeverityError|SeverityWarning|"[a-z_]+ )`, own()...),
		ids(t, `\bname: +"(\w+)"`, files...))
	for _, table := range []string{"lookalike", "effect", "audit", "stat"} {
		wanted = append(wanted, table+"_missing", table+"_broken")
	}
	brought := map[string]bool{}
	for _, sc := range scenarios() {
		for _, id := range append(slices.Clone(sc.errors), sc.warnings...) {
			brought[id] = true
		}
	}
	runbook, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	require.NoError(t, err)
	for _, id := range wanted {
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
	for _, id := range ids(t, `(?m)^\t+(?:return check\{)?(?:\{id|id): +"(\w+)",(?: look| ofTable| on:| only| otherwise|$)`, append(own(), "check.go")...) {
		require.Contains(t, string(runbook), "`"+id+"`")
	}
}
