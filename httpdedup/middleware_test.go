package httpdedup_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// Requests with a safe method are passed on unchanged. TestMalformedRequests has other methods
// without a key.
func TestSafeMethods(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("/orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		_, inside := httpdedup.Tx(r.Context())
		httpdedup.Final(r.Context()) // has no effect here
		w.Header().Set("X-Inside", fmt.Sprint(inside))
		w.(http.Flusher).Flush()
	})
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"} {
		for _, key := range []string{"", "k1"} {
			r, err := http.NewRequestWithContext(t.Context(), method, s.srv.URL+"/orders", nil) // without a tenant
			require.NoError(t, err)
			r.Header.Set("Idempotency-Key", key)
			got, err := s.send(r)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, got.status, method)
			require.Equal(t, "false", got.header.Get("X-Inside"), method)
		}
	}
	require.Zero(t, s.count(t, "tool_dedup"))
}

// A route without a name is refused, so that no path becomes a tool.
func TestToolNames(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	tool := func() (name string) {
		require.NoError(t, s.pool.QueryRow(t.Context(), `DELETE FROM tool_dedup RETURNING tool`).Scan(&name))
		return name
	}
	for pattern, want := range map[string]string{
		"POST /orders/{id}/cancel": "POST /orders/{id}/cancel",
		"POST\t /orders/{id}/ship": "POST /orders/{id}/ship",
	} {
		s.handle(pattern, "", func(http.ResponseWriter, *http.Request) {})
		require.Equal(t, http.StatusOK, s.do(t, http.MethodPost, strings.Replace(want[len("POST "):], "{id}", "1", 1), "k1", "").status)
		require.Equal(t, want, tool())
	}

	for _, pattern := range []string{"/refunds", " /charges"} {
		s.handle(pattern, "", func(http.ResponseWriter, *http.Request) { panic("not run") })
		require.Equal(t, http.StatusInternalServerError, s.do(t, http.MethodPost, strings.TrimSpace(pattern), "k1", "").status, "chi's patterns have no method, and its releases differ")
	}
	require.ErrorContains(t, errors.Join(s.told()...), "names no tool for this route")

	byHeader, err := httpdedup.New(s.d, httpdedup.Options{Scope: tenant, Tool: func(r *http.Request) string { return r.Header.Get("X-Tool") }})
	require.NoError(t, err)
	s.mux.Handle("POST /orders", byHeader.Wrap("", http.HandlerFunc(order)))
	s.post(t, "k1", `{"item": "lamp"}`, func(r *http.Request) { r.Header.Set("X-Tool", "named") })
	require.Equal(t, "named", tool())

	outside, err := httpdedup.New(s.d, httpdedup.Options{Scope: tenant, OnError: func(_ *http.Request, err error) { s.errs = append(s.errs, err) }})
	require.NoError(t, err)
	s.srv.Config.Handler = outside.Wrap("", s.mux)
	got := s.post(t, "k1", `{"item": "lamp"}`)
	require.Equal(t, "internal", got.problem(t).Type)
	require.ErrorContains(t, errors.Join(s.told()...), "names no tool for this route")
	require.Zero(t, s.count(t, "tool_dedup"))

	require.Panics(t, func() { s.m.Wrap("a\nb", http.HandlerFunc(order)) })
	require.Panics(t, func() { s.m.Wrap("tool", nil) })
}

// A ScopeError sets the status, and no client sees its text.
func TestScopeErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		scope     string
		err       error
		status    int
		challenge string
	}{
		"Plain":     {"", errors.New("token of alpha is stale"), 403, ""},
		"Empty":     {"", nil, 403, ""},
		"Typed":     {"", fmt.Errorf("alpha: %w", &httpdedup.ScopeError{Status: 401, Challenge: `Bearer realm="shop"`}), 401, `Bearer realm="shop"`},
		"Down":      {"", &httpdedup.ScopeError{Status: 503, Err: errors.New("alpha")}, 503, ""},
		"Nonsense":  {"", &httpdedup.ScopeError{Status: 200}, 403, ""},
		"Malformed": {"a\nb", nil, 500, ""},
	}
	s := open(t, httpdedup.Options{Scope: func(r *http.Request) (string, error) {
		c := cases[r.Header.Get("X-Case")]
		return c.scope, c.err
	}})
	s.handle("POST /orders", "create_order", order)
	s.mux.Handle("GET /operations/{tool}/{key}", s.m.Operations())
	for name, c := range cases {
		of := func(r *http.Request) { r.Header.Set("X-Case", name) }
		for _, got := range []reply{
			s.post(t, "", "", of), // the answer tells nothing about the key
			s.post(t, "k1", `{"item": "lamp"}`, of),
			s.do(t, http.MethodGet, "/operations/create_order/k1", "", "", of),
		} {
			if c.status == 500 && got.problem(t).Type == "missing-key" {
				continue // dedup checks the scope, later
			}
			require.Equal(t, c.status, got.status, name)
			require.Equal(t, c.challenge, got.header.Get("WWW-Authenticate"), name)
			require.NotContains(t, got.body, "alpha", name)
		}
		told := s.told()
		require.Equal(t, c.status >= 500, len(told) > 0, name)
		if c.err != nil && c.status >= 500 {
			require.ErrorContains(t, told[0], "alpha", name)
		}
	}
	require.Zero(t, s.count(t, "tool_dedup"))
}
