package faultproxy_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds every wait for an event that must come.
const patience = 30 * time.Second

// bundle is a database with a table "done", and one direct way to it.
type bundle struct {
	ctx    context.Context
	url    string
	direct *pgxpool.Pool
}

func setup(t *testing.T) *bundle {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(cancel)
	b := &bundle{ctx: ctx, url: pgtest.NewEmpty(t).URL}
	var err error
	b.direct, err = pgxpool.New(ctx, b.url)
	require.NoError(t, err)
	t.Cleanup(b.direct.Close)
	_, err = b.direct.Exec(ctx, "CREATE TABLE done (key text PRIMARY KEY)")
	require.NoError(t, err)
	return b
}

func (b *bundle) proxy(t *testing.T) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.New(b.url)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// connect opens a connection through p. pgx cleans up after a cut connection in a goroutine, and
// the test waits for that.
func (b *bundle) connect(t *testing.T, p *faultproxy.Proxy, mode pgx.QueryExecMode) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(p.URL())
	require.NoError(t, err)
	config.DefaultQueryExecMode = mode
	conn, err := pgx.ConnectConfig(b.ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close(b.ctx)
		<-conn.PgConn().CleanupDone()
	})
	return conn
}

// done reports whether the row of key is committed.
func (b *bundle) done(t *testing.T, key string) bool {
	t.Helper()
	var found bool
	err := b.direct.QueryRow(b.ctx, "SELECT EXISTS (SELECT FROM done WHERE key = $1)", key).Scan(&found)
	require.NoError(t, err)
	return found
}

func (b *bundle) wait(t *testing.T, what func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(t, what(ctx))
}

var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement,
	pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec,
	pgx.QueryExecModeSimpleProtocol,
}
