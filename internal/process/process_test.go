package process_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/internal/process"
)

// wait is longer than any of this takes.
const wait = time.Minute

// TestMain lets the test program run as a worker that repeats its input.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		in := json.NewDecoder(os.Stdin)
		for {
			var line string
			if in.Decode(&line) != nil {
				return
			}
			if line == "env" {
				line = os.Getenv("WORKER_TEST")
			}
			if line == "babble" {
				_, _ = io.WriteString(os.Stdout, "what?\n")
				continue
			}
			_ = json.NewEncoder(os.Stdout).Encode(line)
		}
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, hello any) (*process.Process, chan string) {
	t.Helper()
	lines := make(chan string, 10)
	p, err := process.Start(process.Command{Args: []string{"worker"}, Env: []string{"WORKER_TEST=set"}, Stderr: t.Output()}, hello,
		func(line string) { lines <- line })
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p, lines
}

func TestLines(t *testing.T) {
	t.Parallel()
	p, lines := start(t, "hello")
	require.Equal(t, "hello", <-lines)
	require.NoError(t, p.Send("env"))
	require.Equal(t, "set", <-lines)
	require.False(t, p.Ended())

	p.Close(wait)
	require.True(t, p.Ended())
	require.Error(t, p.Send("more"))
}

func TestKill(t *testing.T) {
	t.Parallel()
	p, lines := start(t, nil)
	require.NoError(t, p.Send("before"))
	require.Equal(t, "before", <-lines)
	p.Kill()
	<-p.Done()
	require.True(t, p.Ended())
	p.Kill() // again
}

// What a worker writes that is no JSON ends it.
func TestNonsense(t *testing.T) {
	t.Parallel()
	p, lines := start(t, "babble")
	<-p.Done()
	require.Empty(t, lines)
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	_, err := process.Start(process.Command{Program: "/no/such/program"}, "hello", func(string) {})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestFind(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("PATH", elsewhere)
	put := func(parts ...string) string {
		path := filepath.Join(parts...)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o700))
		return path
	}
	_, _, err := process.Find("mill", folder)
	require.ErrorIs(t, err, exec.ErrNotFound)

	inPath := put(elsewhere, "mill")
	for _, folder := range []string{"", folder} {
		path, env, err := process.Find("mill", folder)
		require.NoError(t, err)
		require.Equal(t, inPath, path)
		require.Empty(t, env)
	}

	unpacked, library := put(folder, "usr/sbin/mill"), put(folder, "usr/lib/x86_64-linux-gnu/libmill.so")
	path, env, err := process.Find("mill", folder)
	require.NoError(t, err)
	require.Equal(t, unpacked, path)
	require.Equal(t, []string{"LD_LIBRARY_PATH=" + filepath.Dir(library)}, env)
}
