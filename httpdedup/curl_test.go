package httpdedup_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestCurl runs a script that sends requests with curl to a small shop.
func TestCurl(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: the middleware was not tried with a client of another language", program)
		}
	}
	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), demoTables)
	require.NoError(t, err)
	handler, err := newDemo(pool)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "testdata/curl.sh", server.URL)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	require.Regexp(t, `ok: \d+ checks\n$`, string(out))
	t.Logf("%s", out)
}
