package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// site is a router and the answers of its middleware.
type site struct {
	*chi.Mux
	middleware *httpdedup.Middleware
}

func newSite(t *testing.T, tool func(*http.Request) string) *site {
	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE closed (ticket text NOT NULL PRIMARY KEY)`)
	require.NoError(t, err)
	d, err := dedup.New(pool, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 1}})
	require.NoError(t, err)
	middleware, err := httpdedup.New(d, httpdedup.Options{
		Scope: func(*http.Request) (string, error) { return "desk", nil },
		Tool:  tool,
	})
	require.NoError(t, err)
	return &site{Mux: chi.NewRouter(), middleware: middleware}
}

func (s *site) wrap(h http.Handler) http.Handler { return s.middleware.Wrap("", h) }

func (s *site) do(t *testing.T, method, path, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// closes closes the ticket that chi has read from the path.
func closes(w http.ResponseWriter, r *http.Request) {
	tx, _ := httpdedup.Tx(r.Context())
	if _, err := tx.Exec(r.Context(), `INSERT INTO closed VALUES ($1)`, chi.URLParam(r, "id")+r.PathValue("id")); err != nil {
		panic(err)
	}
}

// chi's pattern names the tool, and the values in the path are arguments.
func TestPatternNamesTheTool(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(r *http.Request) string { return chi.RouteContext(r.Context()).RoutePattern() })
	s.Route("/tickets/{id}", func(r chi.Router) {
		r.Group(func(r chi.Router) {
			r.Use(s.wrap)
			r.Post("/close", closes)
		})
	})
	s.Get("/operations/{tool}/{key}", s.middleware.Operations().ServeHTTP)

	require.Equal(t, http.StatusOK, s.do(t, http.MethodPost, "/tickets/7/close", "k1").Code)
	require.Equal(t, http.StatusOK, s.do(t, http.MethodPost, "/tickets/7/close", "k1").Code) // otherwise the ticket was closed twice
	other := s.do(t, http.MethodPost, "/tickets/8/close", "k1")
	require.Equal(t, http.StatusUnprocessableEntity, other.Code)
	require.Contains(t, other.Body.String(), "Path")
	require.Contains(t, s.do(t, http.MethodGet, "/operations/%2Ftickets%2F%7Bid%7D%2Fclose/k1", "").Body.String(), "done")
}

// A middleware before chi's routing routes a request once. A second routing would find no route.
func TestMiddlewareInFrontOfRouting(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(*http.Request) string { return "api" })
	s.Use(s.wrap)
	runs := 0
	s.Route("/tickets", func(r chi.Router) {
		r.Post("/{id}/close", func(w http.ResponseWriter, r *http.Request) {
			if runs++; runs == 1 {
				tx, _ := httpdedup.Tx(r.Context())
				_, err := tx.Exec(r.Context(), `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`)
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			closes(w, r)
		})
	})

	refused := s.do(t, http.MethodPost, "/tickets/7/close", "k1")
	require.Equal(t, http.StatusServiceUnavailable, refused.Code)
	require.Equal(t, "1", refused.Header().Get("Retry-After"))
	require.Equal(t, 1, runs)
	require.Equal(t, http.StatusOK, s.do(t, http.MethodPost, "/tickets/7/close", "k1").Code)
	require.Equal(t, http.StatusOK, s.do(t, http.MethodPost, "/tickets/7/close", "k1").Code)
	require.Equal(t, 2, runs)
	require.Equal(t, http.StatusNotFound, s.do(t, http.MethodPost, "/nowhere", "k2").Code)
	require.True(t, strings.HasPrefix(refused.Header().Get("Content-Type"), "application/problem+json"))
}
