package bed

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, opts Options) *Bed {
	t.Helper()
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(t.Context())) })
	return s
}

// A result names the machine.
func TestProduction(t *testing.T) {
	t.Parallel()

	m, err := start(t, Options{}).Machine(t.Context())
	require.NoError(t, err)
	require.Positive(t, m.Cores)
	require.NotEmpty(t, m.Postgres)
	for _, safety := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		require.Equal(t, "on", m.Settings[safety])
	}
	require.Equal(t, "1GB", m.Settings["shared_buffers"])
}

func TestDiskIsRequired(t *testing.T) {
	t.Parallel()

	wd, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, requireDisk(t.Context(), wd))
	require.Error(t, requireDisk(t.Context(), filepath.Join(wd, "absent")))
	if runtime.GOOS == "linux" {
		require.ErrorContains(t, requireDisk(t.Context(), "/dev/shm"), "set TMPDIR")
	}
}
