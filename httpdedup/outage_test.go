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

// awaitCleanups makes the test wait for pgx's work after a connection was cut: a goroutine sends a
// cancel request.
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

// A handler that answers 409 may have seen a twin's commit. If the database cannot be asked for the
// twin, the answer is not passed on. Nor is the answer of a handler whose statement failed for a
// reason that may pass.
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
	s.mux.Handle("POST /deadlock", m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, raise("40P01"))
	})))
	for _, path := range []string{"/deadlock", "/outage"} {
		got := s.do(t, http.MethodPost, path, "k1", "")
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.Equal(t, "unavailable", got.problem(t).Type)
	}
	proxy.Refuse(false)
	require.Equal(t, 1, s.count(t, "tool_dedup"))
}

// If the connection breaks during a look-up, the client asks again, and OnError gets nothing.
func TestOperationOverBrokenConnection(t *testing.T) {
	t.Parallel()
	s, proxy := openProxied(t)
	s.mux.Handle("GET /operations/{tool}/{key}", s.m.Operations())
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Times: -1}) // all but the connecting
	got := s.do(t, http.MethodGet, "/operations/create_order/warm", "", "")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "unavailable", got.problem(t).Type)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.Empty(t, s.told())
}

// The reply to COMMIT is lost and the record is found. The request that ran has all its handler's
// headers, like any first answer.
func TestLostCommitKeepsHeaders(t *testing.T) {
	t.Parallel()
	s, proxy := openProxied(t)
	for path, status := range map[string]int{"/login": http.StatusOK, "/forbidden": http.StatusForbidden} {
		s.handle("POST "+path, path, func(w http.ResponseWriter, r *http.Request) {
			if _, err := insert(r.Context(), "lamp"); err != nil {
				t.Error(err)
			}
			w.Header().Set("Location", "/<start>")
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "secret"})
			httpdedup.Final(r.Context())
			w.WriteHeader(status)
		})
		before := s.count(t, "orders")
		fault := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
		first := s.do(t, http.MethodPost, path, "k1", "")
		wait(t, fault.Applied())
		require.Equal(t, status, first.status)
		require.False(t, first.replayed())
		require.NotEmpty(t, first.header.Get("Set-Cookie"))
		again := s.do(t, http.MethodPost, path, "k1", "")
		require.True(t, again.replayed())
		require.Equal(t, status, again.status)
		require.Equal(t, first.body, again.body)
		require.Equal(t, status == http.StatusOK, s.count(t, "orders") == before+1)
		require.Empty(t, again.header.Get("Set-Cookie"))
	}
}
