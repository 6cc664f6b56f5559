package httpdedup_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// cutter closes the connection in the place of an answer.
type cutter struct{ http.ResponseWriter }

func (c cutter) WriteHeader(int) {
	conn, _, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		panic(err)
	}
	conn.Close()
}

func (c cutter) Write(b []byte) (int, error) { return len(b), nil }

// The connection is cut after the commit, so that the client has no answer. It
// comes again over a new connection, and gets the answer that it lost.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	wrapped := s.m.Wrap("create_order", http.HandlerFunc(order))
	s.mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Cut") != "" {
			w = cutter{w}
		}
		wrapped.ServeHTTP(w, r)
	})
	s.mux.Handle("GET /operations/{tool}/{key}", s.m.Operations())

	cut := func(r *http.Request) { r.Header.Set("X-Cut", "yes") }
	_, err := s.send(s.request(t, http.MethodPost, "/orders", "k1", `{"item": "lamp"}`, cut))
	require.Error(t, err)
	require.Equal(t, 1, s.count(t, "orders"), "it was committed")

	require.Contains(t, s.do(t, http.MethodGet, "/operations/create_order/k1", "", "").body, `"state":"done"`)
	again := s.post(t, "k1", `{"item": "lamp"}`)
	require.Equal(t, http.StatusCreated, again.status)
	require.True(t, again.replayed())
	require.Equal(t, "{\"id\":1,\"item\":\"lamp\"}\n", again.body)
	require.Equal(t, again.body, s.post(t, "k1", `{"item": "lamp"}`).body)
	require.Equal(t, 1, s.count(t, "orders"))
}
