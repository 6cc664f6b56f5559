package httpdedup_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// A look at an operation whose connection breaks is a matter of asking again, and
// nothing that the server's people must repair.
func TestOperationOverBrokenConnection(t *testing.T) {
	t.Parallel()
	s, proxy := openProxied(t)
	s.mux.Handle("GET /operations/{tool}/{key}", s.m.Operations())
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Times: -1}) // but for connecting
	got := s.do(t, http.MethodGet, "/operations/create_order/warm", "", "")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "unavailable", got.problem(t).Type)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.Empty(t, s.told())
}

// The answer to COMMIT is lost and the record found: the request that ran has all
// headers of its handler, as any first answer has.
func TestLostCommitKeepsHeaders(t *testing.T) {
	t.Parallel()
	for _, final := range []bool{false, true} {
		s, proxy := openProxied(t)
		s.handle("POST /login", "login", func(w http.ResponseWriter, r *http.Request) {
			if _, err := insert(r.Context(), "lamp"); err != nil {
				t.Error(err)
			}
			w.Header().Set("Location", "/<start>")
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "secret"})
			if final {
				httpdedup.Final(r.Context())
				w.WriteHeader(http.StatusForbidden)
			}
		})
		fault := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
		first := s.do(t, http.MethodPost, "/login", "k1", "")
		wait(t, fault.Applied())
		require.False(t, first.replayed())
		require.NotEmpty(t, first.header.Get("Set-Cookie"))
		again := s.do(t, http.MethodPost, "/login", "k1", "")
		require.True(t, again.replayed())
		require.Equal(t, first.status, again.status)
		require.Equal(t, first.body, again.body)
		require.Equal(t, map[bool]int{false: 2, true: 1}[final], s.count(t, "orders"), "the first is openProxied's")
		require.Empty(t, again.header.Get("Set-Cookie"))
	}
}
