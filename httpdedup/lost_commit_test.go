package httpdedup_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// openProxied makes a shop whose connections to the database can be cut.
func openProxied(t *testing.T) (*shop, *faultproxy.Proxy) {
	t.Helper()
	var proxy *faultproxy.Proxy
	s := open(t, httpdedup.Options{}, func(config *pgxpool.Config) {
		var err error
		proxy, err = faultproxy.New(config.ConnString())
		require.NoError(t, err)
		t.Cleanup(proxy.Close)
		parsed, err := pgxpool.ParseConfig(proxy.URL())
		require.NoError(t, err)
		config.ConnConfig = parsed.ConnConfig
		awaitCleanups(t, config)
	})
	s.handle("POST /orders", "create_order", order)
	require.Equal(t, http.StatusCreated, s.post(t, "warm", `{"item": "lamp"}`).status)
	return s, proxy
}

// awaitCleanups makes the test wait for what pgx does behind connections that were
// cut: it sends a cancel request from a goroutine.
func awaitCleanups(t *testing.T, config *pgxpool.Config) {
	t.Helper()
	opened := make(chan *pgx.Conn, 100)
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		opened <- conn
		return nil
	}
	t.Cleanup(func() {
		for {
			select {
			case conn := <-opened:
				if conn.IsClosed() {
					wait(t, conn.PgConn().CleanupDone())
				}
			default:
				return
			}
		}
	})
}

// A handler that answers 409 may only have seen what a twin has committed. Where
// nobody can be asked whether there was one, its answer is not passed on.
func TestRefusalThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	s, proxy := openProxied(t)
	d, err := dedup.New(s.pool, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 1}})
	require.NoError(t, err)
	m, err := httpdedup.New(d, httpdedup.Options{Scope: tenant})
	require.NoError(t, err)
	s.mux.Handle("POST /outage", m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		proxy.Refuse(true)
		proxy.CutAll()
		w.WriteHeader(http.StatusConflict)
	})))
	got := s.do(t, http.MethodPost, "/outage", "k1", "")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "unavailable", got.problem(t).Type)
	proxy.Refuse(false)
	require.Equal(t, 1, s.count(t, "tool_dedup"))
}
