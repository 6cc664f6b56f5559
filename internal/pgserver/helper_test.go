package pgserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// helperMode makes the test binary a helper.
const helperMode = "PGSERVER_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperMode) != "" {
		help()
		return
	}
	goleak.VerifyTestMain(m)
}

// helperReport is the line a helper writes when it is ready.
type helperReport struct {
	URL, DataDir string
	UID          int
}

// help starts a server, reports, and waits for the end of its input or for SIGKILL.
func help() {
	server, err := Start(context.Background(), &Options{Private: true})
	exitOn(err)
	exitOn(json.NewEncoder(os.Stdout).Encode(helperReport{server.URL, server.DataDir(), os.Getuid()}))
	_, _ = io.Copy(io.Discard, os.Stdin)
	exitOn(server.Stop(context.Background()))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A helper is this test binary in another process.
type helper struct {
	helperReport
	cmd   *exec.Cmd
	stdin io.Closer
}

// startHelper starts a helper and waits until it is ready.
func startHelper(t *testing.T, change func(*exec.Cmd)) *helper {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), helperMode+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	change(cmd)
	require.NoError(t, cmd.Start())

	h := &helper{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err, "the helper's report")
	require.NoError(t, json.Unmarshal(line, &h.helperReport))
	return h
}

// kill ends the helper as a crash or `kill -9` would.
func (h *helper) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, h.cmd.Process.Kill())
	require.Error(t, h.cmd.Wait())
}

// finish ends the helper in good order.
func (h *helper) finish(t *testing.T) {
	t.Helper()
	require.NoError(t, h.stdin.Close())
	require.NoError(t, h.cmd.Wait())
}

// startServer starts a private server that ends with the test.
func startServer(t *testing.T, opts *Options) *Server {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	opts.Private = true
	server, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

// connectTo opens a connection that is closed with the test.
func connectTo(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// query returns the one value that a query returns, as text.
func query(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	var value string
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}

// publicDir returns a temporary folder that every account may enter: the
// server's is another than ours if we are root.
func publicDir(t *testing.T) string {
	t.Helper()
	//nolint:usetesting // that folder is closed to other accounts
	dir, err := os.MkdirTemp("", "pgserver-test-*")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// writeProgram writes a shell script.
func writeProgram(t *testing.T, dir, name, script string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

// installedDir returns the folder of the newest programs on this machine.
func installedDir(t *testing.T) string {
	t.Helper()
	found, err := findPrograms(t.Context(), binDirs())
	require.NoError(t, err)
	require.NotEmpty(t, found, "these tests need installed PostgreSQL server programs")
	return found[0].dir
}
