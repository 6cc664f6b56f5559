package httpdedup_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// http.TimeoutHandler around the middleware answers while the handler still runs. The handler's
// work is rolled back, and the next try runs.
func TestTimeoutHandlerAround(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	wrapped := s.m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Hurry") != "" {
			_, _ = insert(r.Context(), "rolled back") // a slow machine may not get here
			<-r.Context().Done()
		}
		order(w, r)
	}))
	hurried := http.TimeoutHandler(wrapped, time.Second, "too slow")
	s.mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Hurry") != "" {
			hurried.ServeHTTP(w, r)
			return
		}
		wrapped.ServeHTTP(w, r)
	})
	const body = `{"item": "lamp"}`
	got := s.post(t, "k1", body, func(r *http.Request) { r.Header.Set("X-Hurry", "yes") })
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "too slow", got.body)
	got = s.post(t, "k1", body)
	require.Equal(t, http.StatusCreated, got.status)
	require.False(t, got.replayed())
	require.Equal(t, 1, s.count(t, "orders"))
	require.Empty(t, s.told())
}
