package reissue

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// What the balancer does to the call of a tool.
const (
	cutBefore    = "cut before the request"     // no server sees it
	cutBehind    = "cut behind the request"     // a server works on it, for nobody
	cutAnswer    = "cut in place of the answer" // a server has answered
	cutHalf      = "cut within the answer"
	badGateway   = "502 in place of the answer"
	sentTwice    = "delivered twice" // to both servers, as a balancer that tries again
	notDisturbed = ""
)

// faultOdds are out of 20.
var faultOdds = []string{cutBefore, cutBehind, cutBehind, cutAnswer, cutAnswer, cutHalf, badGateway, sentTwice, sentTwice}

// balancer passes requests on to either server.
type balancer struct {
	servers *servers
	wire    *http.Transport
	applied func(fault string)
	// second are deliveries that nobody waits for.
	second sync.WaitGroup

	mu  sync.Mutex
	rng *rand.Rand
}

// draw chooses a server and what goes wrong.
func (b *balancer) draw() (to int, fault string, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.rng.IntN(20); n < len(faultOdds) {
		fault = faultOdds[n]
	}
	return b.rng.IntN(len(b.servers.all)), fault, time.Duration(b.rng.Int64N(int64(longestCall)))
}

// ServeHTTP passes on one request.
func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	to, fault, after := b.draw()
	if !bytes.Contains(body, []byte(`"tools/call"`)) {
		fault = notDisturbed
	}
	ctx := r.Context()
	switch fault {
	case cutBefore:
		b.cut(fault)
	case cutBehind:
		// The server's own connection is cut, at a moment that is drawn.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	case sentTwice:
		b.applied(fault)
		again := r.Clone(context.WithoutCancel(ctx))
		b.second.Go(func() { _, _, _ = b.pass(again.Context(), 1-to, again, body) }) // nobody reads its answer
	}
	res, answer, err := b.pass(ctx, to, r, body)
	switch {
	case fault == cutBehind && ctx.Err() != nil && r.Context().Err() == nil:
		b.cut(fault)
	case err != nil:
		panic(http.ErrAbortHandler) // the server was killed, or the client has gone
	case fault == cutAnswer:
		b.cut(fault)
	case fault == badGateway:
		b.applied(fault)
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	for name, values := range res.Header {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(res.StatusCode)
	if fault == cutHalf {
		_, _ = w.Write(answer[:len(answer)/2])
		_ = http.NewResponseController(w).Flush()
		b.cut(fault)
	}
	_, _ = w.Write(answer)
}

// pass sends a request to a server and reads the whole answer.
func (b *balancer) pass(ctx context.Context, to int, r *http.Request, body []byte) (*http.Response, []byte, error) {
	out := r.Clone(ctx)
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", b.servers.addr(to)
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res, err := b.wire.RoundTrip(out)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return res, answer, err
}

// cut ends the client's connection.
func (b *balancer) cut(fault string) {
	b.applied(fault)
	panic(http.ErrAbortHandler)
}
