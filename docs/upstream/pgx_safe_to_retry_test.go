package upstream

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestSafeToRetryAfterLostCommit is the reproduction of pgx-safe-to-retry.md. When
// it fails, pgx has changed: look whether the report is still true.
func TestSafeToRetryAfterLostCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	direct, err := pgx.Connect(ctx, pgtest.NewEmpty(t).URL)
	require.NoError(t, err)
	defer direct.Close(context.WithoutCancel(ctx))
	_, err = direct.Exec(ctx, `CREATE TABLE t (n int)`)
	require.NoError(t, err)

	config := direct.Config().Copy()
	proxied, loseAnswers := proxy(t, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
	config.Host, config.Port, config.Fallbacks = "127.0.0.1", uint16(proxied), nil
	conn, err := pgx.ConnectConfig(ctx, config)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(ctx))

	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `INSERT INTO t VALUES (1)`)
	require.NoError(t, err)
	loseAnswers()
	err = tx.Commit(ctx)
	require.EqualError(t, err, "conn closed")

	var rows int
	require.NoError(t, direct.QueryRow(ctx, `SELECT count(*) FROM t`).Scan(&rows))
	require.Equal(t, 1, rows, "the transaction is committed")
	//nolint:forbidigo // the function that is at fault
	require.True(t, pgconn.SafeToRetry(err), "and pgx calls it safe to retry")
}

// proxy passes one connection on until lose is called. From then on it takes the
// next answer from the server, and closes the client's connection in its place.
func proxy(t *testing.T, server string) (port int, lose func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	var losing atomic.Bool
	go func() {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = client.Close() }()
		upstream, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer func() { _ = upstream.Close() }()
		go func() { _, _ = io.Copy(upstream, client) }()
		buf := make([]byte, 1<<16)
		for {
			n, err := upstream.Read(buf)
			if err != nil || losing.Load() {
				return
			}
			_, _ = client.Write(buf[:n])
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, func() { losing.Store(true) }
}
