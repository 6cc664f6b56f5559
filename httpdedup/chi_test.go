package httpdedup_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

func TestChi(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{Tool: func(r *http.Request) string { return chi.RouteContext(r.Context()).RoutePattern() }})
	router := chi.NewRouter()
	router.Post("/orders", s.m.Wrap("create_order", http.HandlerFunc(order)).ServeHTTP)
	router.Route("/orders/{id}", func(r chi.Router) {
		r.Group(func(r chi.Router) {
			r.Use(func(h http.Handler) http.Handler { return s.m.Wrap("", h) })
			r.Post("/cancel", func(w http.ResponseWriter, r *http.Request) {
				if _, err := insert(r.Context(), "cancel "+chi.URLParam(r, "id")+r.PathValue("id")); err != nil {
					panic(err)
				}
			})
		})
	})
	router.Get("/operations/{tool}/{key}", s.m.Operations().ServeHTTP)
	s.srv.Config.Handler = router

	first := s.post(t, "k1", `{"item": "lamp"}`)
	require.Equal(t, http.StatusCreated, first.status)
	again := s.post(t, "k1", `{"item": "lamp"}`)
	require.True(t, again.replayed())
	require.Equal(t, first.body, again.body)

	require.Equal(t, http.StatusOK, s.do(t, http.MethodPost, "/orders/7/cancel", "k1", "").status)
	require.True(t, s.do(t, http.MethodPost, "/orders/7/cancel", "k1", "").replayed())
	require.Equal(t, []string{"Path"}, s.do(t, http.MethodPost, "/orders/8/cancel", "k1", "").problem(t).Changed)
	require.Contains(t, s.do(t, http.MethodGet, "/operations/%2Forders%2F%7Bid%7D%2Fcancel/k1", "", "").body, "done")

	var items string
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT string_agg(item, ',' ORDER BY id) FROM orders`).Scan(&items))
	require.Equal(t, "lamp,cancel 77", items)
}

// A middleware that stands before chi's routing sees a request once: routed a second
// time it would be lost.
func TestChiUse(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{Tool: func(r *http.Request) string { return "api" }})
	runs, failing := 0, true
	router := chi.NewRouter()
	router.Use(func(h http.Handler) http.Handler { return s.m.Wrap("", h) })
	router.Route("/orders", func(r chi.Router) {
		r.Route("/{id}", func(r chi.Router) {
			r.Post("/cancel", func(w http.ResponseWriter, r *http.Request) {
				runs++
				if failing {
					fail(w, r, "40001")
					return
				}
				if _, err := insert(r.Context(), "cancel "+chi.URLParam(r, "id")); err != nil {
					panic(err)
				}
			})
		})
	})
	s.srv.Config.Handler = router

	got := s.do(t, http.MethodPost, "/orders/7/cancel", "k1", "")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "unavailable", got.problem(t).Type)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.Equal(t, 1, runs)
	failing = false
	require.Equal(t, http.StatusOK, s.do(t, http.MethodPost, "/orders/7/cancel", "k1", "").status)
	require.True(t, s.do(t, http.MethodPost, "/orders/7/cancel", "k1", "").replayed())
	require.Equal(t, 2, runs)
	require.Equal(t, http.StatusNotFound, s.do(t, http.MethodPost, "/nowhere", "k2", "").status)
	require.Equal(t, 1, s.count(t, "tool_dedup"))
	require.Empty(t, s.told())
}
