package faultproxy_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

func TestRefuse(t *testing.T) {
	t.Parallel()

	b := setup(t)
	p := b.proxy(t)
	open := b.connect(t, p, pgx.QueryExecModeExec)
	p.Refuse(true)
	_, err := pgx.Connect(b.ctx, p.URL())
	require.Error(t, err)
	require.NoError(t, open.Ping(b.ctx), "open connections go on")
	require.Positive(t, p.Snapshot().Refused) // pgx may try twice
	require.Equal(t, 1, p.Snapshot().Connections)

	p.Refuse(false)
	require.NoError(t, b.connect(t, p, pgx.QueryExecModeExec).Ping(b.ctx))
}

func TestCutAll(t *testing.T) {
	t.Parallel()

	b := setup(t)
	p := b.proxy(t)
	one, two := b.connect(t, p, pgx.QueryExecModeExec), b.connect(t, p, pgx.QueryExecModeExec)
	hold := p.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtSQL("insert")})
	held := make(chan error, 1)
	go func() {
		_, err := two.Exec(b.ctx, "INSERT INTO done VALUES ('held')")
		held <- err
	}()
	b.wait(t, hold.Wait)

	require.Equal(t, 2, p.CutAll())
	require.Error(t, one.Ping(b.ctx))
	require.Error(t, <-held)
	b.wait(t, hold.WaitSettled)
	require.False(t, b.done(t, "held"), "what was held is dropped")
	require.NoError(t, b.connect(t, p, pgx.QueryExecModeExec).Ping(b.ctx))
}

func TestClose(t *testing.T) {
	t.Parallel()

	b := setup(t)
	p := b.proxy(t)
	failed := make(chan error)
	kinds := []faultproxy.Kind{faultproxy.Hold, faultproxy.ReplyDelayed, faultproxy.Blackhole, faultproxy.Delayed}
	for i, kind := range kinds {
		conn := b.connect(t, p, pgx.QueryExecModeExec)
		armed := p.Arm(faultproxy.Fault{Kind: kind})
		go func() {
			_, err := conn.Exec(b.ctx, "SELECT $1::int", i)
			failed <- err
		}()
		b.wait(t, armed.Wait)
	}
	b.connect(t, p, pgx.QueryExecModeExec) // a second one does nothing

	p.Close()
	for range kinds {
		require.Error(t, <-failed)
	}
	_, err := pgx.Connect(b.ctx, p.URL())
	require.Error(t, err)
	p.Close()
}

func TestCancelRequest(t *testing.T) {
	t.Parallel()

	b := setup(t)
	p := b.proxy(t)
	conn := b.connect(t, p, pgx.QueryExecModeExec)
	result := make(chan error, 1)
	go func() {
		_, err := conn.Exec(b.ctx, "SELECT pg_sleep($1)", 1000)
		result <- err
	}()
	requests := 0
	for err := error(nil); err == nil; requests++ { // a request before the query is ignored
		require.NoError(t, conn.PgConn().CancelRequest(b.ctx))
		select {
		case err = <-result:
			require.ErrorContains(t, err, "57014")
		default:
		}
	}
	require.Equal(t, requests, p.Snapshot().Cancels)
	require.Equal(t, 1, p.Snapshot().Connections)
	require.NoError(t, conn.Ping(b.ctx))
}

func TestEncryptionIsDeclined(t *testing.T) {
	t.Parallel()

	b := setup(t)
	p := b.proxy(t)
	require.Contains(t, p.URL(), "sslmode=disable")
	conn, err := pgx.Connect(b.ctx, strings.Replace(p.URL(), "sslmode=disable", "sslmode=prefer", 1))
	require.NoError(t, err)
	require.NoError(t, conn.Close(b.ctx))
	_, err = pgx.Connect(b.ctx, strings.Replace(p.URL(), "sslmode=disable", "sslmode=require", 1))
	require.ErrorContains(t, err, "refused TLS")
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()

	p, err := faultproxy.New("postgres://u@/x?host=" + t.TempDir())
	require.NoError(t, err)
	defer p.Close()
	_, err = pgx.Connect(context.Background(), p.URL())
	require.Error(t, err)
}
