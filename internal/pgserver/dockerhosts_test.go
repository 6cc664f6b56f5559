//go:build unix

package pgserver

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPingDocker(t *testing.T) {
	t.Parallel()

	dir := publicDir(t) // t.TempDir is too long for a socket's path
	listen := func(t *testing.T, name string) (host string) {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return "unix://" + l.Addr().String()
	}
	dead := "unix://" + filepath.Join(dir, "dead.sock")

	t.Run("NoDaemon", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, pingDocker(t.Context(), nil, time.Minute), errAbsent)
	})

	t.Run("DeadSocket", func(t *testing.T) {
		t.Parallel()
		err := pingDocker(t.Context(), []string{dead}, time.Minute)
		require.ErrorContains(t, err, "no daemon answers at "+dead)
		require.NotErrorIs(t, err, errAbsent)
	})

	t.Run("HangingSocket", func(t *testing.T) {
		t.Parallel()
		hanging := listen(t, "hanging.sock") // accepts, and never answers
		begin := time.Now()
		err := pingDocker(t.Context(), []string{dead, hanging, "unix:///not/asked"}, 50*time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the daemon at "+hanging+" did not answer within 50ms")
		require.ErrorContains(t, err, dead)
		require.NotContains(t, err.Error(), "/not/asked")
		require.Less(t, time.Since(begin), 10*time.Second)
	})

	t.Run("BadAddress", func(t *testing.T) {
		t.Parallel()
		require.Error(t, pingDocker(t.Context(), []string{"nonsense"}, time.Minute))
	})
}

func TestExistingSocket(t *testing.T) {
	t.Parallel()

	path := filepath.Join(publicDir(t), "docker.sock")
	require.Empty(t, existingSocket(path))
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	require.Equal(t, "unix://"+path, existingSocket(path))
	require.Empty(t, existingSocket(filepath.Dir(path)), "a folder")
}
