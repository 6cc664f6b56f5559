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

// HTTPFault is what befalls a request.
type HTTPFault string

const (
	CutBefore  HTTPFault = "cut before the request"     // no server sees it
	CutBehind  HTTPFault = "cut behind the request"     // a server works on it, for nobody
	CutAnswer  HTTPFault = "cut in place of the answer" // a server has answered
	CutHalf    HTTPFault = "cut within the answer"
	BadGateway HTTPFault = "502 in place of the answer"
	SentTwice  HTTPFault = "delivered twice" // to the second server too, as by a balancer that tries again
)

// HTTPMishap is a fault and how it befalls a request.
type HTTPMishap struct {
	Fault HTTPFault
	// After is how long after the request was sent the connection is cut, of CutBehind.
	After time.Duration
	// Applied is called when it happens.
	Applied func()
}

// HTTPProxy passes requests on to a server, and cuts the connections of some.
type HTTPProxy struct {
	// To returns the addresses of the servers, that of the one to ask first.
	To func(context.Context) ([]string, error)
	// Next returns what befalls the next request, nil for nothing. Of MCP's requests it is asked for
	// calls of tools alone.
	Next func() *HTTPMishap

	web    *httptest.Server
	wire   *http.Transport
	second sync.WaitGroup // deliveries that nobody waits for
}

// Start starts it, and Close ends it.
func (p *HTTPProxy) Start() {
	p.wire, p.web = &http.Transport{}, httptest.NewServer(p)
}

// URL is where it is to be reached.
func (p *HTTPProxy) URL() string { return p.web.URL }

// Close ends it when nothing is on its way any more.
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
		p.second.Go(func() { _, _, _ = p.pass(again.Context(), to[1], again, body) }) // nobody reads its answer
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
