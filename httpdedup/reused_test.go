package httpdedup_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// A client's repeat of a key must be the same request.
func TestReused(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	cancel := func(w http.ResponseWriter, r *http.Request) {
		if _, err := insert(r.Context(), "cancel "+r.PathValue("id")); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	s.handle("/orders/{id}/cancel", "cancel_order", cancel)

	first := s.do(t, http.MethodPost, "/orders/1/cancel?why=late", "k1", `{"a": 1, "secret": "v1"}`)
	require.Equal(t, http.StatusNoContent, first.status)
	for _, c := range []struct {
		name, method, path, body string
		change                   func(*http.Request)
		changed                  []string
	}{
		{"Path", "POST", "/orders/2/cancel?why=late", `{"a": 1, "secret": "v1"}`, nil, []string{"Path"}},
		{"Query", "POST", "/orders/1/cancel?why=early", `{"a": 1, "secret": "v1"}`, nil, []string{"Query"}},
		{"Host", "POST", "/orders/1/cancel?why=late", `{"a": 1, "secret": "v1"}`,
			func(r *http.Request) { r.Host = "shop-b.example" }, []string{"Host"}},
		{"Method", "PUT", "/orders/1/cancel?why=late", `{"a": 1, "secret": "v1"}`, nil, []string{"Method"}},
		{"Member", "POST", "/orders/1/cancel?why=late", `{"a": 1, "secret": "v2", "c": null}`, nil, []string{"body.c", "body.secret"}},
		{"NoBody", "POST", "/orders/1/cancel?why=late", ``, nil, []string{"Content-Type", "body.a", "body.secret"}},
		{"Type", "POST", "/orders/1/cancel?why=late", `{"a": 1, "secret": "v1"}`,
			func(r *http.Request) { r.Header.Set("Content-Type", "application/merge-patch+json") }, []string{"Content-Type"}},
		{"Encoding", "POST", "/orders/1/cancel?why=late", `{"a": 1, "secret": "v1"}`,
			func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, []string{"Content-Encoding", "body", "body.a", "body.secret"}},
	} {
		change := c.change
		if change == nil {
			change = func(*http.Request) {}
		}
		got := s.do(t, c.method, c.path, "k1", c.body, change)
		p := got.problem(t)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, c.name)
		require.Equal(t, "key-reused", p.Type, c.name)
		require.Equal(t, c.changed, p.Changed, c.name)
		for _, value := range []string{"v1", "v2", "k1", "late", "early"} {
			require.NotContains(t, got.body, value, c.name)
		}
	}
	require.True(t, s.do(t, http.MethodPost, "/orders/1/cancel?why=late", "k1", `{"secret": "v1", "a": 1.0}`).replayed())
	require.Equal(t, 1, s.count(t, "orders"))
	another := s.do(t, http.MethodPost, "/orders/2/cancel", "k1", "", as("globex"))
	require.Equal(t, http.StatusNoContent, another.status, "another client's key")
	require.False(t, another.replayed())
	require.Equal(t, 2, s.count(t, "orders"))
	require.Empty(t, s.told())
}

// A record remembers 64 names. The path is among them, however many members the body has.
func TestReusedWideBody(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders/{id}", "change_order", func(http.ResponseWriter, *http.Request) {})
	members := make([]string, 100)
	for i := range members {
		members[i] = fmt.Sprintf(`"a%d": %d`, i, i)
	}
	wide := "{" + strings.Join(members, ",") + "}"
	require.Equal(t, http.StatusOK, s.do(t, http.MethodPost, "/orders/1", "k1", wide).status)
	p := s.do(t, http.MethodPost, "/orders/2", "k1", wide).problem(t)
	require.Equal(t, []string{"Path"}, p.Changed)
	require.Contains(t, p.Detail, "perhaps of more")
}
