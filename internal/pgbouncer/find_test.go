package pgbouncer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	t.Run("InTheFolderOfUnpackedPackages", func(t *testing.T) {
		dir := t.TempDir()
		program := filepath.Join(dir, "usr/sbin/pgbouncer")
		libraries := filepath.Join(dir, "usr/lib/x86_64-linux-gnu")
		require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o700))
		require.NoError(t, os.MkdirAll(libraries, 0o700))
		require.NoError(t, os.WriteFile(program, nil, 0o600))
		t.Setenv("DEDUP_PGBOUNCER", dir)
		gotProgram, gotLibraries, err := find()
		require.NoError(t, err)
		require.Equal(t, program, gotProgram)
		require.Equal(t, libraries, gotLibraries)
	})

	t.Run("SaysHowToInstallIt", func(t *testing.T) {
		t.Setenv("DEDUP_PGBOUNCER", t.TempDir())
		t.Setenv("PATH", t.TempDir())
		program, _, err := find()
		if err == nil {
			t.Skipf("there is one outside PATH: %s", program)
		}
		require.ErrorIs(t, err, ErrAbsent)
		require.ErrorContains(t, err, Install)
	})
}
