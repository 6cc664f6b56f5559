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

// overdue is a context whose deadline passes when done is closed.
type overdue struct {
	context.Context
	done chan struct{}
}

func (o overdue) Done() <-chan struct{} { return o.done }

func (o overdue) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return o.Context.Err()
	}
}

func TestPingDocker(t *testing.T) {
	t.Parallel()

	dir := publicDir(t) // t.TempDir is too long for a socket's path
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
		path := filepath.Join(dir, "hanging.sock")
		l, err := net.Listen("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		hanging, ctx := "unix://"+path, overdue{t.Context(), make(chan struct{})}
		go func() { // who is let in, and never answered
			if conn, err := l.Accept(); err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
			close(ctx.done)
		}()
		err = pingDocker(ctx, []string{dead, hanging, "unix:///not/asked"}, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the daemon at "+hanging+" did not answer within 1m0s")
		require.ErrorContains(t, err, dead)
		require.NotContains(t, err.Error(), "/not/asked")
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
