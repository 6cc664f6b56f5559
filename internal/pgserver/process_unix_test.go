//go:build unix

package pgserver

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerDiesWithItsProcess(t *testing.T) {
	t.Parallel()

	// In a temporary folder of its own: every start sweeps the common one, and
	// another's sweep may be half done when ours finds the folder taken.
	tempDir := publicDir(t)
	h := startHelper(t, "server", func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "TMPDIR="+tempDir)
	})
	conn := connectTo(t, h.URL)
	running := serverProcesses(t, h.PID)
	require.Greater(t, len(running), 4)

	h.kill(t)
	_, err := conn.WaitForNotification(t.Context())
	require.Error(t, err, "the connection ends with the server")
	require.NoError(t, awaitGone(running))

	// Its data is left, for the next start to remove.
	folder := filepath.Dir(h.DataDir)
	require.Equal(t, tempDir, filepath.Dir(folder))
	sweep(tempDir)
	require.NoDirExists(t, folder)
}

func TestSweepLeavesServersInUse(t *testing.T) {
	t.Parallel()

	h := startHelper(t, "server", nil)
	ours := startServer(t, nil)
	sweep(filepath.Dir(filepath.Dir(h.DataDir)))
	require.DirExists(t, h.DataDir)
	require.DirExists(t, ours.DataDir())
	h.finish(t)
	require.NoDirExists(t, filepath.Dir(h.DataDir))
}

func TestWatchdog(t *testing.T) {
	t.Parallel()

	start := func(t *testing.T) (*exec.Cmd, *helper) {
		watched := exec.CommandContext(t.Context(), "sleep", "600")
		require.NoError(t, watched.Start())
		h := startHelper(t, "watchdog", func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, helperPID+"="+strconv.Itoa(watched.Process.Pid))
		})
		return watched, h
	}

	t.Run("EndsTheProcessWithItsOwner", func(t *testing.T) {
		t.Parallel()
		watched, h := start(t)
		h.kill(t)
		var exit *exec.ExitError
		require.ErrorAs(t, watched.Wait(), &exit)
		require.Equal(t, syscall.SIGQUIT, exit.Sys().(syscall.WaitStatus).Signal())
	})

	t.Run("DoesNothingWhenReleased", func(t *testing.T) {
		t.Parallel()
		watched, h := start(t)
		h.finish(t)
		require.NoError(t, watched.Process.Signal(syscall.Signal(0)), "still there")
		require.NoError(t, watched.Process.Kill())
		require.Error(t, watched.Wait())
	})
}
