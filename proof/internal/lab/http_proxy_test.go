package lab

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	request = "a request"
	reply   = "an answer of some length"
)

// TestHTTPProxy applies each fault to a fresh connection and to a used one.
func TestHTTPProxy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault   HTTPFault
		read    string
		arrives int // at the servers
		fails   bool
	}{
		{"", reply, 1, false},
		{CutBefore, "", 0, true},
		{CutBehind, "", 1, true},
		{CutAnswer, "", 1, true},
		{CutHalf, reply[:len(reply)/2], 1, true},
		{BadGateway, "", 1, false},
		{SentTwice, reply, 2, false},
	} {
		for name, used := range map[string]bool{"fresh": false, "used": true} {
			t.Run(string(tt.fault)+"/"+name, func(t *testing.T) {
				t.Parallel()
				b := setupProxy(t)
				if used {
					_, err := b.send(t, request)
					require.NoError(t, err)
					b.await(t, 1)
				}
				b.mishap.Store(&HTTPMishap{Fault: tt.fault, Applied: func() { b.applied.Add(1) }})
				got, err := b.send(t, request)
				require.Equal(t, tt.fails, err != nil, err)
				require.Equal(t, tt.read, got)
				require.Equal(t, tt.fault != "", b.applied.Load() == 1)
				b.await(t, tt.arrives)
				got, err = b.send(t, request)
				require.NoError(t, err, "a mishap befalls one request")
				require.Equal(t, reply, got)
			})
		}
	}
}

// TestHTTPProxyThatTheTransportMends shows that net/http repeats a request with a key by itself.
// The cut counts all the same.
func TestHTTPProxyThatTheTransportMends(t *testing.T) {
	t.Parallel()
	b := setupProxy(t)
	_, err := b.send(t, request)
	require.NoError(t, err)
	b.await(t, 1)
	b.mishap.Store(&HTTPMishap{Fault: CutAnswer, Applied: func() { b.applied.Add(1) }})
	got, err := b.send(t, request, "Idempotency-Key")
	require.NoError(t, err)
	require.Equal(t, reply, got)
	require.EqualValues(t, 1, b.applied.Load())
	b.await(t, 2)
}

// TestHTTPProxyOfMCP applies faults to calls of tools only.
func TestHTTPProxyOfMCP(t *testing.T) {
	t.Parallel()
	b := setupProxy(t)
	b.mishap.Store(&HTTPMishap{Fault: CutAnswer, Applied: func() { b.applied.Add(1) }})
	_, err := b.send(t, `{"jsonrpc":"2.0","method":"initialize"}`)
	require.NoError(t, err)
	require.Zero(t, b.applied.Load())
	_, err = b.send(t, `{"jsonrpc":"2.0","method":"tools/call"}`)
	require.Error(t, err)
}

func TestHTTPProxyWithoutAServer(t *testing.T) {
	t.Parallel()
	b := setupProxy(t)
	b.proxy.To = func(context.Context) ([]string, error) { return nil, io.EOF }
	_, err := b.send(t, request)
	require.Error(t, err)
}

// proxied is a server behind a proxy, listed twice.
type proxied struct {
	proxy   *HTTPProxy
	client  *http.Client
	served  chan struct{} // gets a value for each complete request
	mishap  atomic.Pointer[HTTPMishap]
	applied atomic.Int64
}

func setupProxy(t *testing.T) *proxied {
	t.Helper()
	b := &proxied{client: &http.Client{Transport: &http.Transport{}}, served: make(chan struct{}, 10)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			b.served <- struct{}{}
		}
		_, _ = io.WriteString(w, reply)
	}))
	addr := server.Listener.Addr().String()
	b.proxy = &HTTPProxy{
		To:   func(context.Context) ([]string, error) { return []string{addr, addr}, nil },
		Next: func() *HTTPMishap { return b.mishap.Swap(nil) },
	}
	b.proxy.Start()
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		b.proxy.Close()
		server.Close()
	})
	return b
}

// await waits for requests to arrive.
func (b *proxied) await(t *testing.T, requests int) {
	t.Helper()
	for range requests {
		select {
		case <-b.served:
		case <-time.After(20 * time.Second):
			t.Fatal("no request has arrived")
		}
	}
}

// send makes a request and returns the part of its answer that it can read.
func (b *proxied) send(t *testing.T, body string, header ...string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.proxy.URL(), strings.NewReader(body))
	require.NoError(t, err)
	for _, name := range header {
		r.Header.Set(name, "value")
	}
	response, err := b.client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
