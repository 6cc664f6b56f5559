package httpdedup_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestCurl runs the script that sends requests with curl to the demo server.
func TestCurl(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: the middleware was not tried with a client of another language", program)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../scripts/httpdedup-curl")
	cmd.Env = append(os.Environ(), "DEDUP_DATABASE_URL="+pgtest.NewEmpty(t).URL)
	// It stops its server when it is asked to end.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	require.Regexp(t, `ok: \d+ checks\n$`, string(out))
	t.Logf("%s", out)
}
