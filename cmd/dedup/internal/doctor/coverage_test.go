package doctor_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
)

// TestEveryFindingIsCovered: every error and warning of the doctor's has a scenario that brings it
// about, and stands in the runbook, and so does what cannot be read. What the examiner finds is
// planted in the tests of package migrations.
func TestEveryFindingIsCovered(t *testing.T) {
	t.Parallel()

	brought := map[string]bool{}
	for _, sc := range scenarios() {
		for _, id := range append(sc.errors, sc.warnings...) {
			brought[id] = true
		}
	}
	runbook, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
	checked, found := doctor.Declared()
	for _, id := range found {
		require.True(t, brought[id], "no scenario brings about %s", id)
	}
	for _, id := range append(found, checked...) {
		require.Contains(t, string(runbook), "`"+id+"`", "the runbook does not name it")
	}
}
