package httpdedup_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
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

// Two tenants may choose one key, and never see each other's answers.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", order)
	s.mux.Handle("GET /operations/{tool}/{key}", s.m.Operations())

	acme := s.post(t, "k1", `{"item": "lamp"}`)
	globex := s.post(t, "k1", `{"item": "chair"}`, as("globex"))
	require.Equal(t, http.StatusCreated, acme.status)
	require.Equal(t, http.StatusCreated, globex.status)
	require.False(t, globex.replayed())
	require.Contains(t, globex.body, "chair")

	require.Equal(t, acme.body, s.post(t, "k1", `{"item": "lamp"}`).body)
	require.Equal(t, globex.body, s.post(t, "k1", `{"item": "chair"}`, as("globex")).body)
	require.Equal(t, http.StatusUnprocessableEntity, s.post(t, "k1", `{"item": "chair"}`).status)

	require.Contains(t, s.do(t, http.MethodGet, "/operations/create_order/k1", "", "").body, "lamp")
	require.Contains(t, s.do(t, http.MethodGet, "/operations/create_order/k1", "", "", as("globex")).body, "chair")
	stranger := s.do(t, http.MethodGet, "/operations/create_order/k1", "", "", as("initech"))
	never := s.do(t, http.MethodGet, "/operations/create_order/never", "", "", as("initech"))
	require.Equal(t, http.StatusNotFound, stranger.status)
	require.Equal(t, never.body, stranger.body)
	require.Equal(t, 2, s.count(t, "orders"))
}

// A request that comes while its twin runs waits for the twin's answer.
func TestTwinsWait(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", order)
	const twins = 20
	replies := make([]reply, twins)
	var wg sync.WaitGroup
	for i := range twins {
		r := s.request(t, http.MethodPost, "/orders", "k1", `{"item": "lamp"}`)
		wg.Go(func() {
			got, err := s.send(r)
			if err == nil {
				replies[i] = got
			}
		})
	}
	wg.Wait()
	firsts := 0
	for _, got := range replies {
		require.Equal(t, http.StatusCreated, got.status)
		require.Equal(t, replies[0].body, got.body)
		if !got.replayed() {
			firsts++
		}
	}
	require.Equal(t, 1, firsts)
	require.Equal(t, 1, s.count(t, "orders"))
}

func TestExpired(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{Retention: dedup.InteractiveRetention()})
	s.handle("POST /orders", "create_order", order)
	s.post(t, "k1", `{"item": "lamp"}`)
	s.pass(t, "2 hours")
	got := s.post(t, "k1", `{"item": "lamp"}`)
	require.Equal(t, http.StatusGone, got.status)
	require.Equal(t, "expired", got.problem(t).Type)
	require.Equal(t, 1, s.count(t, "orders"))
}
