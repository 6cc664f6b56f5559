package pgserver

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrivateServer(t *testing.T) {
	t.Parallel()

	var lines []string
	server := startServer(t, &Options{Logf: func(_ string, args ...any) {
		lines = append(lines, args[0].(string))
	}})
	require.Equal(t, []string{server.Source}, lines)
	require.Regexp(t, `^PostgreSQL [\d.]+ from /.+, data in a temporary folder below /.+$`, server.Source)
	require.Equal(t, WayInstalled, server.Way)
	require.Positive(t, server.PID())

	conn := connectTo(t, server.URL)
	require.Equal(t, server.DataDir(), query(t, conn, "SHOW data_directory"))
	require.Equal(t, "on", query(t, conn, "SHOW is_superuser"))
	require.Equal(t, "UTF8", query(t, conn, "SHOW server_encoding"))
	require.Equal(t, "C", query(t, conn, "SELECT datcollate FROM pg_database WHERE datname = 'postgres'"))
	require.Equal(t, "127.0.0.1", query(t, conn, "SHOW listen_addresses"))
	require.NoError(t, conn.Close(t.Context()))

	require.NoError(t, server.Stop(t.Context()))
	require.NoDirExists(t, filepath.Dir(server.DataDir()))
	require.Zero(t, server.PID())
	_, err := ask(t.Context(), server.URL)
	require.Error(t, err)

	require.NoError(t, server.Stop(t.Context()), "a second Stop")
	require.ErrorContains(t, server.Restart(t.Context()), "stopped")
	require.NoError(t, server.Kill(), "a Kill after Stop")
}

func TestStopOutlivesACancelledContext(t *testing.T) {
	t.Parallel()

	server := startServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, server.Stop(ctx))
	require.NoDirExists(t, filepath.Dir(server.DataDir()))
}

func TestSettings(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name string
		opts *Options
		want map[string]string
	}{
		{"Default", &Options{}, map[string]string{
			"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on", "max_connections": "300",
		}},
		{"Durable", &Options{Durable: true}, map[string]string{
			"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "max_connections": "300",
		}},
		{"Further", &Options{Settings: map[string]string{"max_connections": "30", "wal_level": "logical"}}, map[string]string{
			"fsync": "off", "max_connections": "30", "wal_level": "logical",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn := connectTo(t, startServer(t, tt.opts).URL)
			for name, want := range tt.want {
				require.Equal(t, want, query(t, conn, "SHOW "+name), name)
			}
		})
	}
}

func TestStartWithACancelledContext(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, &Options{Private: true})
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "fix:")
}

func TestStartErrorsHoldTheLog(t *testing.T) {
	t.Parallel()

	_, err := Start(t.Context(), &Options{BinDir: installedDir(t), Settings: map[string]string{"shared_buffers": "much"}})
	require.ErrorContains(t, err, `invalid value for parameter "shared_buffers": "much"`)
}

// A server of another cluster on the port must not be taken for ours.
func TestLaunchOnATakenPort(t *testing.T) {
	t.Parallel()

	other := startServer(t, nil)
	u, err := url.Parse(other.URL)
	require.NoError(t, err)

	c := startServer(t, nil).cluster
	require.NoError(t, c.Kill())
	c.port = other.port
	err = c.launch(t.Context())
	require.ErrorContains(t, err, `could not bind IPv4 address "127.0.0.1"`)
	require.ErrorContains(t, err, u.Port())
	require.True(t, isPortTaken(err), "so that the first launch tries another port")
	require.Zero(t, c.PID())
	require.NoError(t, connectTo(t, other.URL).Ping(t.Context()))
}

// No outgoing connection takes the port of a server that is started again.
func TestPortsAreNotOfConnections(t *testing.T) {
	t.Parallel()
	conn := connectTo(t, startServer(t, nil).URL).PgConn().Conn()
	require.GreaterOrEqual(t, conn.LocalAddr().(*net.TCPAddr).Port, endPort)
	require.Less(t, conn.RemoteAddr().(*net.TCPAddr).Port, endPort)
}

func TestNotPrivate(t *testing.T) {
	t.Parallel()

	server := &Server{}
	require.ErrorIs(t, server.Kill(), ErrNotPrivate)
	require.ErrorIs(t, server.Restart(t.Context()), ErrNotPrivate)
	require.ErrorIs(t, server.Pause(), ErrNotPrivate)
	require.ErrorIs(t, server.Resume(), ErrNotPrivate)
	_, err := server.StartStandby(t.Context(), "second", nil)
	require.ErrorIs(t, err, ErrNotPrivate)
	require.Zero(t, server.PID())
	require.Empty(t, server.DataDir())
	require.NoError(t, server.Stop(t.Context()))
}

func TestEnvironmentDoesNotReachTheServer(t *testing.T) {
	t.Setenv("PGDATA", os.DevNull)
	t.Setenv("PGPORT", "1")
	t.Setenv("LC_ALL", "tlh_KX.UTF-8")

	server := startServer(t, nil)
	require.NoError(t, connectTo(t, server.URL).Ping(t.Context()))
}

func TestTempRoot(t *testing.T) {
	dir := publicDir(t)
	t.Setenv("TMPDIR", dir)
	server := startServer(t, nil)
	require.Equal(t, dir, filepath.Dir(filepath.Dir(server.DataDir())))
	require.Contains(t, server.Source, "below "+dir)

	t.Setenv("TMPDIR", "")
	require.Equal(t, os.TempDir(), filepath.Dir(filepath.Dir(startServer(t, &Options{Durable: true}).DataDir())))
	require.False(t, hasRoom("/proc"))
	require.False(t, hasRoom("/missing"))
}
