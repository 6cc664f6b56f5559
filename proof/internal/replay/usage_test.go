package replay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFailsEarly requires that a wrong command line and a server that is away have their exit codes,
// and show no password.
func TestFailsEarly(t *testing.T) {
	t.Parallel()
	for url, code := range map[string]int{"mysql://u:secret@h/d": 2, "postgres://u:secret@127.0.0.1:1/d": 1} {
		o := execute(t.Context(), "--recording", smallDir, "--database-url", url)
		require.Equal(t, code, o.code, url)
		require.NotContains(t, o.stderr, "secret")
		require.Empty(t, o.out)
	}
}
