package lab

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"time"
)

// HTTPFault is a fault of a request.
type HTTPFault string

const (
	CutBefore  HTTPFault = "cut before the request"     // no server sees it
	CutBehind  HTTPFault = "cut behind the request"     // a server works on it without a client
	CutAnswer  HTTPFault = "cut in place of the answer" // a server answered
	CutHalf    HTTPFault = "cut within the answer"
	BadGateway HTTPFault = "502 in place of the answer"
	SentTwice  HTTPFault = "delivered twice" // to the second server too, as by a balancer that tries again
)

// HTTPMishap is a fault and its details.
type HTTPMishap struct {
	Fault HTTPFault
	// After is the time between the request and the cut of CutBehind.
	After time.Duration
	// Applied is called with the fault.
	Applied func()
}

// HTTPProxy passes requests on to a server and applies faults to some.
type HTTPProxy struct {
	// To returns the addresses of the servers. The first is asked first.
	To func(context.Context) ([]string, error)
	// Next returns the fault of the next request, or nil. Of MCP's requests it is only called for
	// calls of tools.
	Next func() *HTTPMishap

	web    *httptest.Server
	wire   *http.Transport
	second sync.WaitGroup // deliveries without a waiting client
}

// Start starts the proxy. Close ends it.
func (p *HTTPProxy) Start() {
	p.wire, p.web = &http.Transport{}, httptest.NewServer(p)
}

// URL is the proxy's address.
func (p *HTTPProxy) URL() string { return p.web.URL }

// Close ends the proxy after the last request.
func (p *HTTPProxy) Close() {
	p.web.CloseClientConnections()
	p.web.Close()
	p.second.Wait()
	p.wire.CloseIdleConnections()
}

// ServeHTTP implements [http.Handler].
func (p *HTTPProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	to, err := p.To(r.Context())
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	m := &HTTPMishap{}
	if !bytes.Contains(body, []byte(`"jsonrpc"`)) || bytes.Contains(body, []byte(`"tools/call"`)) {
		if next := p.Next(); next != nil {
			m = next
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	switch m.Fault {
	case CutBefore:
		m.cut()
	case CutBehind:
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { time.AfterFunc(m.After, cancel) }})
	case SentTwice:
		m.Applied()
		again := r.Clone(context.WithoutCancel(ctx))
		p.second.Go(func() { _, _, _ = p.pass(again.Context(), to[1], again, body) }) // its answer is dropped
	}
	res, answer, err := p.pass(ctx, to[0], r, body)
	switch {
	case m.Fault == CutBehind && r.Context().Err() == nil && (err == nil || ctx.Err() != nil), m.Fault == CutAnswer && err == nil:
		m.cut()
	case err != nil:
		panic(http.ErrAbortHandler) // the server was killed, or the client has gone
	case m.Fault == BadGateway:
		m.Applied()
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	for name, values := range res.Header {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(res.StatusCode)
	if m.Fault == CutHalf {
		_, _ = w.Write(answer[:len(answer)/2])
		_ = http.NewResponseController(w).Flush()
		m.cut()
	}
	_, _ = w.Write(answer)
}

// pass sends a request to a server and reads the whole answer.
func (p *HTTPProxy) pass(ctx context.Context, to string, r *http.Request, body []byte) (*http.Response, []byte, error) {
	out := r.Clone(ctx)
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", to
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res, err := p.wire.RoundTrip(out)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return res, answer, err
}

// cut ends the client's connection.
func (m *HTTPMishap) cut() {
	m.Applied()
	panic(http.ErrAbortHandler)
}
