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

// Answers from 500 on and those of 400 to 499 that are not final roll back and
// are sent as they are; the next try runs.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	for i, c := range []struct {
		status int
		final  bool
	}{
		{400, false}, {404, false}, {409, false}, {429, false}, {499, false},
		{500, false}, {500, true}, {503, false}, {503, true}, {599, false}, {599, true},
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
		for range 2 {
			got := s.do(t, http.MethodPost, path, "k1", `{"item": "lamp"}`)
			require.Equal(t, c.status, got.status, path)
			require.Equal(t, "no", got.body, path)
			require.Equal(t, "because", got.header.Get("X-Reason"), path)
			require.False(t, got.replayed(), path)
			require.Equal(t, i, s.count(t, "orders"), path)
			require.Equal(t, i, s.count(t, "tool_dedup"), path)
		}
		require.Equal(t, http.StatusCreated, s.do(t, http.MethodPost, path, "k1", `{"item": "lamp"}`).status, path)
		require.Equal(t, i+1, s.count(t, "orders"), path)
	}
	require.Empty(t, s.told())
}

// A final answer is stored, and what the handler wrote is not.
func TestFinal(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	var runs atomic.Int32
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		if _, err := insert(r.Context(), "rolled back"); err != nil {
			panic(err)
		}
		httpdedup.Final(r.Context())
		w.Header().Set("Content-Type", "text/html")
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "secret"})
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = w.Write([]byte("<b>card\xff \"declined\"\u2028</b>\x00\n"))
	})
	first := s.post(t, "k1", `{"item": "lamp"}`)
	require.Equal(t, http.StatusPaymentRequired, first.status)
	require.False(t, first.replayed())
	require.NotEmpty(t, first.header.Get("Set-Cookie"))
	again := s.post(t, "k1", `{"item": "lamp"}`)
	require.True(t, again.replayed())
	require.Equal(t, first.status, again.status)
	require.Equal(t, first.body, again.body)
	require.Equal(t, "text/html", again.header.Get("Content-Type"))
	require.Empty(t, again.header.Get("Set-Cookie"))
	require.EqualValues(t, 1, runs.Load())
	require.Zero(t, s.count(t, "orders"))
	require.Equal(t, 1, s.count(t, "tool_dedup"))
}

// A panic passes through, and leaves nothing behind.
func TestPanic(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	for i, value := range []any{http.ErrAbortHandler, errors.New("boom"), "boom"} {
		path := fmt.Sprintf("/%d", i)
		raised := make(chan any, 1)
		wrapped := s.m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := insert(r.Context(), "rolled back"); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusCreated)
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
