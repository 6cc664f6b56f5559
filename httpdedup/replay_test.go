package httpdedup_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
