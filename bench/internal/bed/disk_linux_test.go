package bed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiskIsRequired(t *testing.T) {
	t.Parallel()

	wd, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, requireDisk(wd))
	require.Error(t, requireDisk(filepath.Join(wd, "absent")))
	require.ErrorContains(t, requireDisk("/dev/shm"), "set TMPDIR")
}
