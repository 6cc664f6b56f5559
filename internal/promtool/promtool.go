// Package promtool runs Prometheus's promtool in tests of the rules for alerts.
package promtool

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/process"
)

// Run runs promtool in a folder. It is searched in PATH and in the folder that DEDUP_PROMTOOL
// names, into which its package may be unpacked. Without promtool the test is skipped.
func Run(t *testing.T, dir string, args ...string) {
	t.Helper()
	program, _, err := process.Find("promtool", os.Getenv("DEDUP_PROMTOOL"))
	if err != nil {
		t.Skip("SKIPPED, NOTHING WAS TESTED: promtool is not found in DEDUP_PROMTOOL or PATH; run `apt-get install prometheus`")
	}
	run := exec.CommandContext(t.Context(), program, args...)
	run.Dir = dir
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "SUCCESS")
}
