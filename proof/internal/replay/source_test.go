package replay

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOpenRecording tries the places in their order. It changes the process's environment and
// folder, so it cannot run in parallel.
func TestOpenRecording(t *testing.T) {
	small, err := filepath.Abs("../../../internal/recording/small")
	require.NoError(t, err)
	root := t.TempDir()
	inside := filepath.Join(root, "checkout", "cmd")
	require.NoError(t, os.MkdirAll(inside, 0o755))
	t.Setenv("TAUBENCH_DIR", "")
	t.Chdir(inside)

	rec, from, err := openRecording("")
	require.NoError(t, err)
	require.Equal(t, "the small one inside this program", from)
	require.Len(t, rec.Sessions, 6)

	require.NoError(t, os.WriteFile(filepath.Join(root, "checkout", "go.work"), nil, 0o600))
	beside := filepath.Join(root, "shared", "taubench")
	require.NoError(t, os.MkdirAll(filepath.Dir(beside), 0o755))
	require.NoError(t, os.CopyFS(beside, os.DirFS(small)))
	_, from, err = openRecording("")
	require.NoError(t, err)
	require.Equal(t, beside, from)

	t.Setenv("TAUBENCH_DIR", small)
	_, from, err = openRecording("")
	require.NoError(t, err)
	require.Equal(t, small, from)

	_, from, err = openRecording(beside)
	require.NoError(t, err)
	require.Equal(t, beside, from)

	t.Setenv("TAUBENCH_DIR", root)
	_, _, err = openRecording("")
	require.ErrorIs(t, err, os.ErrNotExist, "a folder that is named is not passed over")
}
