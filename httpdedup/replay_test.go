package httpdedup_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", order)

	first := s.post(t, "k1", `{"item": "lamp"}`)
	require.Equal(t, http.StatusCreated, first.status)
	require.False(t, first.replayed())
	require.Empty(t, first.header.Values("Idempotency-Replayed"))
	require.Equal(t, "yes", first.header.Get("X-Once"))
	require.NotEmpty(t, first.header.Get("Set-Cookie"))

	for name, change := range map[string]func(*http.Request){
		"Same":     func(*http.Request) {},
		"BareKey":  func(r *http.Request) { r.Header.Set("Idempotency-Key", "k1") },
		"Params":   func(r *http.Request) { r.Header.Set("Idempotency-Key", `"k1"; a=1`) },
		"Spelling": func(r *http.Request) { r.Body, r.ContentLength = body("{ \"\\u0069tem\":\"lamp\" }") },
		"Type":     func(r *http.Request) { r.Header.Set("Content-Type", "Application/JSON; charset=utf-8") },
		"Chunked":  func(r *http.Request) { r.ContentLength = -1 },
	} {
		again := s.post(t, "k1", `{"item": "lamp"}`, change)
		require.Equal(t, first.status, again.status, name)
		require.Equal(t, first.body, again.body, name)
		require.True(t, again.replayed(), name)
		for _, header := range []string{"Content-Type", "Location", "Content-Length"} {
			require.Equal(t, first.header.Get(header), again.header.Get(header), name)
		}
		require.Empty(t, again.header.Get("Set-Cookie"), name)
		require.Empty(t, again.header.Get("X-Once"), name)
	}
	require.Equal(t, 1, s.count(t, "orders"))
	require.Equal(t, 1, s.count(t, "tool_dedup"))
	require.Empty(t, s.told())
}

func body(text string) (io.ReadCloser, int64) {
	return io.NopCloser(strings.NewReader(text)), int64(len(text))
}

// TestNotKept: an endpoint that mints a secret sends it once. A retry learns that the request ran.
func TestNotKept(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{OperationsPath: "/operations", Retention: dedup.Retention{Result: -1}})
	s.handle("POST /orders", "create_order", order)
	s.mux.Handle("GET /operations/{tool}/{key}", s.m.Operations())
	s.handle("POST /declined", "decline", func(w http.ResponseWriter, r *http.Request) {
		httpdedup.Final(r.Context())
		http.Error(w, "declined: secret", http.StatusPaymentRequired)
	})

	first := s.post(t, "k1", `{"item": "lamp"}`)
	require.Equal(t, http.StatusCreated, first.status)
	require.Empty(t, first.header.Values("Dedup-Kept-Until"))
	declined := s.do(t, http.MethodPost, "/declined", "k1", "")
	require.Equal(t, http.StatusPaymentRequired, declined.status)
	require.Contains(t, declined.body, "secret")
	var kept int
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT count(result) FROM tool_dedup`).Scan(&kept))
	require.Zero(t, kept)

	for text, again := range map[string]reply{
		"and its result was not kept. Nothing was done again.": s.post(t, "k1", `{"item": "lamp"}`),
		"and the answer was not kept. Nothing was done.":       s.do(t, http.MethodPost, "/declined", "k1", ""),
	} {
		require.Equal(t, http.StatusGone, again.status)
		require.Equal(t, "expired", again.problem(t).Type)
		require.Contains(t, again.body, text)
	}
	require.Equal(t, 1, s.count(t, "orders"))
	asked := s.do(t, http.MethodGet, "/operations/create_order/k1", "", "")
	require.Equal(t, http.StatusOK, asked.status)
	require.Contains(t, asked.body, `"state":"expired"`)
	require.NotContains(t, asked.body, "expires_at")
}
