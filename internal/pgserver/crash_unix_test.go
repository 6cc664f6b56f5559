//go:build unix

package pgserver

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKillAndRestart(t *testing.T) {
	t.Parallel()

	server := startServer(t, nil)
	conn := connectTo(t, server.URL)
	_, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	require.NoError(t, err)

	before := serverProcesses(t, server.PID())
	require.Greater(t, len(before), 4, "the postmaster, its background processes and our connection's")
	url := server.URL

	require.NoError(t, server.Kill())
	require.Zero(t, server.PID())
	require.DirExists(t, server.DataDir())
	after, err := processes()
	require.NoError(t, err)
	for _, gone := range before {
		for _, info := range after {
			require.False(t, info.pid == gone.pid && info.started == gone.started && !info.dead(), "process %d", gone.pid)
		}
	}
	require.NoError(t, server.Kill(), "a second Kill")
	require.Error(t, conn.Ping(t.Context()))

	require.NoError(t, server.Restart(t.Context()))
	require.Equal(t, url, server.URL)
	require.Equal(t, "1", query(t, connectTo(t, server.URL), "SELECT n::text FROM kept"))
}

func TestRestartOfARunningServer(t *testing.T) {
	t.Parallel()

	server := startServer(t, nil)
	pid := server.PID()
	require.NoError(t, server.Restart(t.Context()))
	require.NotEqual(t, pid, server.PID())
	require.NoError(t, connectTo(t, server.URL).Ping(t.Context()))
}

func TestRestartAfterThePostmasterWasKilled(t *testing.T) {
	t.Parallel()

	server := startServer(t, nil)
	conn := connectTo(t, server.URL)
	running := server.cluster.process
	require.NoError(t, syscall.Kill(server.PID(), syscall.SIGKILL))
	<-running.done
	require.Zero(t, server.PID())

	require.NoError(t, server.Restart(t.Context()))
	require.Error(t, conn.Ping(t.Context()))
	require.NoError(t, connectTo(t, server.URL).Ping(t.Context()))
}
