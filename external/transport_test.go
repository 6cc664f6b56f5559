package external_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
)

// TestTransport makes attempts over HTTP, and says what is known of each.
func TestTransport(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	var lost atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/lost":
			lost.Add(1)
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
	client := &http.Client{Transport: &external.Transport{Base: &http.Transport{}}}
	t.Cleanup(client.CloseIdleConnections)
	// send is what an SDK does inside Perform: it returns the error of its last request.
	send := func(ctx context.Context, method string, urls ...string) (err error) {
		for _, url := range urls {
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
	for name, c := range map[string]struct {
		method string
		urls   []string
		again  bool // it is attempted again, because it certainly had no effect
	}{
		"NotConnected":        {http.MethodPost, []string{closed.URL}, true},
		"Busy":                {http.MethodPost, []string{server.URL + "/busy"}, true},
		"BusyTwice":           {http.MethodPost, []string{server.URL + "/busy", server.URL + "/busy"}, true},
		"LostThenRefused":     {http.MethodPost, []string{server.URL + "/lost", closed.URL}, false},
		"LostThenBusy":        {http.MethodPost, []string{server.URL + "/lost", server.URL + "/busy"}, false},
		"BrokenThenBusy":      {http.MethodPost, []string{server.URL + "/broken", server.URL + "/busy"}, false},
		"ConflictThenBusy":    {http.MethodPost, []string{server.URL + "/conflict", server.URL + "/busy"}, false},
		"DoneThenRefused":     {http.MethodPost, []string{server.URL + "/done", closed.URL}, false},
		"ReadLostThenRefused": {http.MethodGet, []string{server.URL + "/lost", closed.URL}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tries := 0
			h := add(f, external.Tool[in, out]{Perform: func(ctx context.Context, _ external.Attempt, _ in) (out, error) {
				if tries++; tries > 1 {
					return out{"ch_1"}, nil
				}
				return out{}, send(ctx, c.method, c.urls...)
			}})
			_, err := h.Do(f.ctx, call("k"), in{1})
			if c.again {
				require.NoError(t, err)
				require.Equal(t, 2, tries)
			} else {
				require.ErrorAs(t, err, new(*external.ParkedError))
				require.Equal(t, 1, tries)
			}
		})
	}
}

// TestTransportSendsNothingTwice closes a connection that is kept open: net/http would send
// a request that has a GetBody again.
func TestTransportSendsNothingTwice(t *testing.T) {
	t.Parallel()
	var received atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String(), strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
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
