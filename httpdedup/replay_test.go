package httpdedup_test

import (
	"context"
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

// waits tells when a call begins to wait for its twin.
type waits struct {
	dedup.Tracer
	begun chan dedup.WaitStartData
}

func (w waits) TraceEvent(_ context.Context, event dedup.Event) {
	if data, ok := event.(dedup.WaitStartData); ok {
		w.begun <- data
	}
}

// A request that comes while its twin runs waits for the twin's answer, with the default options.
func TestTwinsWait(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	seen := waits{dedup.MultiTracer(), make(chan dedup.WaitStartData, 10)}
	var err error
	s.d, err = dedup.New(s.pool, &dedup.Options{Tracer: seen})
	require.NoError(t, err)
	s.guard(t, httpdedup.Options{})
	running, goOn := make(chan struct{}, 2), make(chan struct{})
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		running <- struct{}{}
		<-goOn
		order(w, r)
	})
	post := func() <-chan reply {
		r := s.request(t, http.MethodPost, "/orders", "k1", `{"item": "lamp"}`)
		answered := make(chan reply, 1)
		go func() {
			got, err := s.send(r)
			if err != nil {
				t.Error(err)
			}
			answered <- got
		}()
		return answered
	}

	first := post()
	<-running
	second := post()
	var twin reply
	select {
	case <-seen.begun:
		close(goOn)
		twin = wait(t, second)
	case twin = <-second: // it has not waited
		close(goOn)
	}
	executed := wait(t, first)
	require.Equal(t, http.StatusCreated, executed.status, executed.body)
	require.False(t, executed.replayed())
	require.Equal(t, http.StatusCreated, twin.status, twin.body)
	require.True(t, twin.replayed())
	require.Equal(t, executed.body, twin.body)
	require.Equal(t, 1, s.count(t, "orders"))
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
