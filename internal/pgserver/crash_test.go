package pgserver

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a process leaves that is killed while initdb fills the folder.
func TestFolderDiesWithItsProcess(t *testing.T) {
	t.Parallel()

	dir := publicDir(t)
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), helperMode+"=1", "TMPDIR="+dir)
	require.NoError(t, cmd.Start())
	await := func(pattern string, there bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			return err == nil && (len(found) > 0) == there
		}, 10*time.Minute, time.Millisecond)
	}
	await("*/data/postmaster.pid", true)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	await("*", false)
}

// A backend that is busy notices nothing of its postmaster's end: it has to be killed as well.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()

	server := startServer(t, nil)
	conn := connectTo(t, server.URL)
	_, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	require.NoError(t, err)
	busy, watcher := make(chan error), connectTo(t, server.URL)
	go func() {
		_, err := conn.Exec(t.Context(), "DO 'BEGIN LOOP NULL; END LOOP; END'")
		busy <- err
	}()
	require.Eventually(t, func() bool {
		return query(t, watcher, "SELECT count(*)::text FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO %'") == "1"
	}, 10*time.Minute, time.Millisecond)

	require.NoError(t, server.Kill())
	require.Error(t, <-busy)
	require.Zero(t, server.PID())
	require.NoError(t, server.Kill(), "a second Kill")

	url := server.URL
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
	running := server.postmaster
	require.NoError(t, syscall.Kill(server.PID(), syscall.SIGKILL))
	<-running.done
	require.Zero(t, server.PID())

	require.NoError(t, server.Restart(t.Context()))
	require.Error(t, conn.Ping(t.Context()))
	require.NoError(t, connectTo(t, server.URL).Ping(t.Context()))
}

func TestServerDiesWithItsProcess(t *testing.T) {
	t.Parallel()

	h := startHelper(t, func(*exec.Cmd) {})
	conn := connectTo(t, h.URL)
	h.kill(t)
	_, err := conn.WaitForNotification(t.Context())
	require.Error(t, err, "the connection ends with the server")
	require.Eventually(t, func() bool {
		left, err := filepath.Glob(filepath.Dir(h.DataDir))
		return err == nil && left == nil
	}, 10*time.Minute, 10*time.Millisecond, "the watchdog removes the data")
}

func TestStandbyFollowsAndTakesOver(t *testing.T) {
	t.Parallel()

	primary := startServer(t, nil)
	standby, err := primary.StartStandby(t.Context(), "second", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop(context.Background())) })
	require.Contains(t, standby.Source, "a standby named second")
	require.Equal(t, primary.Way, standby.Way)

	writer, reader := connectTo(t, primary.URL), connectTo(t, standby.URL)
	require.Equal(t, "second", query(t, writer, "SELECT application_name FROM pg_stat_replication"))
	require.Equal(t, "true", query(t, reader, "SELECT pg_is_in_recovery()::text"))
	_, err = writer.Exec(t.Context(), "CREATE TABLE notes AS SELECT 'kept' AS text")
	require.NoError(t, err)
	written := query(t, writer, "SELECT pg_current_wal_insert_lsn()::text")
	require.Eventually(t, func() bool {
		return query(t, reader, "SELECT (pg_last_wal_replay_lsn() >= '"+written+"')::text") == "true"
	}, 10*time.Minute, 10*time.Millisecond)
	require.Equal(t, "kept", query(t, reader, "SELECT text FROM notes"))

	require.NoError(t, primary.Kill())
	require.Equal(t, "true", query(t, reader, "SELECT pg_promote()::text"))
	_, err = reader.Exec(t.Context(), "INSERT INTO notes VALUES ('added')")
	require.NoError(t, err)
}
