package httpdedup_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// A 5xx, and a 4xx that is not final, roll back and are sent unchanged; the next try runs. A final
// 4xx is stored, without the handler's writes.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	for _, c := range []struct {
		status      int
		final, kept bool
	}{
		{400, false, false}, {404, false, false}, {409, false, false}, {429, false, false}, {499, false, false},
		{500, false, false}, {500, true, false}, {503, false, false}, {503, true, false}, {599, false, false}, {599, true, false},
		{400, true, true}, {402, true, true}, {499, true, true},
	} {
		path := fmt.Sprintf("/%d/%t", c.status, c.final)
		var runs atomic.Int32
		s.handle("POST "+path, path, func(w http.ResponseWriter, r *http.Request) {
			if runs.Add(1) > 2 {
				order(w, r)
				return
			}
			if _, err := insert(r.Context(), "rolled back"); err != nil {
				panic(err)
			}
			if c.final {
				httpdedup.Final(r.Context())
			}
			w.Header().Set("X-Reason", "because")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte("no"))
		})
		orders, records := s.count(t, "orders"), s.count(t, "tool_dedup")
		post := func() reply { return s.do(t, http.MethodPost, path, "k1", `{"item": "lamp"}`) }
		for try := range 2 {
			got := post()
			require.Equal(t, c.status, got.status, path)
			require.Equal(t, "no", got.body, path)
			require.Equal(t, c.kept && try > 0, got.replayed(), path)
			require.Equal(t, got.replayed(), got.header.Get("X-Reason") == "", path)
			require.Equal(t, orders, s.count(t, "orders"), path)
			require.Equal(t, c.kept, s.count(t, "tool_dedup") > records, path)
		}
		require.Equal(t, !c.kept, post().status == http.StatusCreated, path)
		require.Equal(t, !c.kept, s.count(t, "orders") > orders, path)
	}
	require.Empty(t, s.told())
}

// A panic passes through and leaves nothing. A status code that makes net/http panic also panics
// here.
func TestPanic(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	const badCode = "httpdedup: invalid WriteHeader code 99"
	for i, value := range []any{http.ErrAbortHandler, errors.New("boom"), "boom", badCode} {
		path := fmt.Sprintf("/%d", i)
		raised := make(chan any, 1)
		wrapped := s.m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := insert(r.Context(), "rolled back"); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusCreated)
			if value == badCode {
				w.WriteHeader(99)
				return
			}
			panic(value)
		}))
		s.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				raised <- recover()
				panic(http.ErrAbortHandler)
			}()
			wrapped.ServeHTTP(w, r)
		})
		_, err := s.send(s.request(t, http.MethodPost, path, "k1", ""))
		require.Error(t, err, "the connection is closed without an answer")
		require.Equal(t, value, wait(t, raised))
		require.Zero(t, s.count(t, "orders"))
		require.Zero(t, s.count(t, "tool_dedup"))
	}
}
