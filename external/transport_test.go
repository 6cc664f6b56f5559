package external_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
)

// TestTransport makes attempts over HTTP and compares their outcomes.
func TestTransport(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/lost":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		case "/busy":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		case "/conflict":
			w.WriteHeader(http.StatusConflict)
		}
	}))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &external.Transport{Base: again{&http.Transport{}}}}
	t.Cleanup(client.CloseIdleConnections)
	// send behaves as an SDK inside Perform does: it returns the error of its last request.
	send := func(ctx context.Context, method string, paths []string) (err error) {
		for _, path := range paths {
			url := server.URL + path
			if path == "closed" {
				url = closed.URL
			}
			var body io.Reader
			if method == http.MethodPost {
				body = strings.NewReader("{}")
			}
			req, reqErr := http.NewRequestWithContext(ctx, method, url, body)
			if reqErr != nil {
				return reqErr
			}
			res, doErr := client.Do(req)
			err = doErr
			if doErr == nil {
				_ = res.Body.Close()
				if res.StatusCode != http.StatusOK {
					err = external.NotDone(errors.New(res.Status))
				}
			}
		}
		return err
	}
	shared := newFixture(t)
	for name, c := range map[string]struct {
		method string
		paths  []string
		again  bool // the attempt had no effect and is made again
	}{
		"NotConnected":        {http.MethodPost, []string{"closed"}, true},
		"Busy":                {http.MethodPost, []string{"/busy"}, true},
		"BusyTwice":           {http.MethodPost, []string{"/busy", "/busy"}, true},
		"LostThenRefused":     {http.MethodPost, []string{"/lost", "closed"}, false},
		"LostThenBusy":        {http.MethodPost, []string{"/lost", "/busy"}, false},
		"BrokenThenBusy":      {http.MethodPost, []string{"/broken", "/busy"}, false},
		"ConflictThenBusy":    {http.MethodPost, []string{"/conflict", "/busy"}, false},
		"DoneThenRefused":     {http.MethodPost, []string{"/done", "closed"}, false},
		"SentAgainThenBusy":   {http.MethodPost, []string{"/busy?again"}, false},
		"ReadLostThenRefused": {http.MethodGet, []string{"/lost", "closed"}, true},
	} {
		f, tries := process(t, shared.pool), 0
		h := add(f, external.Tool[in, out]{Perform: func(ctx context.Context, _ external.Attempt, _ in) (out, error) {
			tries++
			return out{}, send(ctx, c.method, c.paths)
		}})
		_, err := h.Do(f.ctx, impatient(name), in{1})
		require.Equal(t, !c.again, errors.As(err, new(*external.ParkedError)), "%s: %v", name, err)
		require.Equal(t, c.again, f.lookup(name).State == external.StatePending, name)
		require.Equal(t, 1, tries, name)
	}
}

// again is a Base that repeats some requests within one RoundTrip and returns the last response.
type again struct{ *http.Transport }

func (a again) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.RawQuery == "again" {
		first := r.Clone(r.Context())
		first.URL.Path, first.Body, first.ContentLength = "/lost", nil, 0
		if res, err := a.Transport.RoundTrip(first); err == nil {
			_ = res.Body.Close()
		}
	}
	return a.Transport.RoundTrip(r)
}

// TestTransportSendsNothingTwice closes a kept-alive connection. net/http repeats a request with
// GetBody, or without a body and with a key; Transport must not.
func TestTransportSendsNothingTwice(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]func() io.Reader{
		"Body":   func() io.Reader { return strings.NewReader("{}") },
		"NoBody": func() io.Reader { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sendsNothingTwice(t, body)
		})
	}
}

func sendsNothingTwice(t *testing.T, body func() io.Reader) {
	t.Helper()
	var received atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "k", r.Header.Get("Idempotency-Key"))
		if received.Add(1) == 2 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	client := &http.Client{Transport: &external.Transport{Base: &http.Transport{}}}
	t.Cleanup(client.CloseIdleConnections)
	post := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String(), body())
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
		req.Header.Set("X-Idempotency-Key", "k")
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	require.NoError(t, post())
	require.Error(t, post())
	require.EqualValues(t, 2, received.Load())
}

// TestTransportSaysUnsent fails requests for which a Base cannot report, or reports too late, that
// they were written.
func TestTransportSaysUnsent(t *testing.T) {
	t.Parallel()
	post := func(ctx context.Context, base http.RoundTripper, url string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
		require.NoError(t, err)
		res, err := (&external.Transport{Base: base}).RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	isNotDone := func(err error) bool { return reflect.TypeOf(err) == reflect.TypeOf(external.NotDone(errLost)) }

	t.Run("WrittenAfterCancel", func(t *testing.T) { // HTTP/2 does not wait for its writer
		t.Parallel()
		received := make(chan struct{})
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stalled" {
				close(received)
			}
		})}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
		conn := &stalled{writing: make(chan struct{}), goOn: make(chan struct{})}
		base := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
			conn.Conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return conn, err
		}}
		t.Cleanup(base.CloseIdleConnections)
		url := "http://" + l.Addr().String()
		require.NoError(t, post(t.Context(), base, url))
		conn.stalls.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-conn.writing
			cancel()
		}()
		err = post(ctx, base, url+"/stalled")
		require.ErrorIs(t, err, context.Canceled)
		conn.stalls.Store(false)
		close(conn.goOn)
		<-received
		require.False(t, isNotDone(err), "the provider has received it")
	})
	t.Run("NotTraced", func(t *testing.T) {
		t.Parallel()
		require.False(t, isNotDone(post(t.Context(), failing{}, "http://provider.example")))
	})
	t.Run("NotConnected", func(t *testing.T) { // through a Base that wraps net/http's
		t.Parallel()
		base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errLost }}
		require.True(t, isNotDone(post(t.Context(), again{base}, "http://provider.example")))
	})
}

// stalled is a connection whose writes wait until they are released.
type stalled struct {
	net.Conn
	stalls        atomic.Bool
	writing, goOn chan struct{}
}

func (c *stalled) Write(b []byte) (int, error) {
	if c.stalls.Load() {
		close(c.writing)
		<-c.goOn
	}
	return c.Conn.Write(b)
}

// failing is a Base without httptrace that loses its reply.
type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errLost }
