package pgserver

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
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

// A daemon that is named is not passed over without a word.
func TestPingDockerThatIsNamed(t *testing.T) {
	const named = "unix:///no/such.sock"
	t.Setenv("DOCKER_HOST", named)
	err := pingDocker(t.Context(), []string{named}, time.Minute)
	require.ErrorContains(t, err, "no daemon answers at "+named)
	require.NotErrorIs(t, err, errAbsent)
}

func TestPingDocker(t *testing.T) {
	t.Parallel()

	dir := publicDir(t) // t.TempDir is too long for a socket's path
	dead := "unix://" + filepath.Join(dir, "dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: strings.TrimPrefix(dead, "unix://")})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false) // the socket stays without a listener
	require.NoError(t, l.Close())

	t.Run("NoDaemon", func(t *testing.T) {
		t.Parallel()
		for _, hosts := range [][]string{nil, {"unix:///no/such.sock"}} {
			require.ErrorIs(t, pingDocker(t.Context(), hosts, time.Minute), errAbsent)
		}
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
		go func() { // accepts a connection and never answers
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

// The server of docker-compose.yml is the one that Start runs in a container.
func TestComposeFileAgrees(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	want, err := json.Marshal(map[string]any{"services": map[string]any{"postgres": map[string]any{
		"image":       Image,
		"command":     append([]string{"postgres"}, (&Options{}).settings()...),
		"environment": map[string]string{"POSTGRES_PASSWORD": "postgres", "POSTGRES_INITDB_ARGS": initdbArgs},
		"ports":       []string{"127.0.0.1:5432:5432"},
		"healthcheck": map[string]any{
			"test":     []string{"CMD", "pg_isready", "--host=127.0.0.1", "--username=postgres", "--quiet"},
			"interval": "1s", "timeout": "3s", "retries": 60,
		},
	}}})
	require.NoError(t, err)
	require.YAMLEq(t, string(want), string(text)) // JSON is YAML
	require.Contains(t, string(text), "DEDUP_DATABASE_URL=postgres://postgres:postgres@127.0.0.1:5432/postgres")
}
