package pgserver

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTempRoots(t *testing.T) {
	t.Run("TMPDIRIsObeyed", func(t *testing.T) {
		dir := publicDir(t)
		t.Setenv("TMPDIR", dir)
		fast, durable := tempRoots()
		require.Equal(t, []string{dir, dir}, []string{fast, durable})
		server := startServer(t, nil)
		require.Equal(t, dir, filepath.Dir(filepath.Dir(server.DataDir())))
		require.Contains(t, server.Source, "below "+dir)
	})

	t.Run("DurableDataIsOnDisk", func(t *testing.T) {
		t.Setenv("TMPDIR", "")
		_, durable := tempRoots()
		server := startServer(t, &Options{Durable: true})
		require.Equal(t, durable, filepath.Dir(filepath.Dir(server.DataDir())))
	})

	t.Run("OnlyMemoryHasRoom", func(t *testing.T) {
		require.False(t, hasRoom("/proc"))
		require.False(t, hasRoom("/missing"))
	})
}
