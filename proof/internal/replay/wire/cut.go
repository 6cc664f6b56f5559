package wire

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

// errCut is what the client of a connection that was cut is told.
var errCut = errors.New("the connection was cut")

// Cut is one cut. It may be armed at several transports, and befalls one delivery.
type Cut struct {
	how     plan.How
	taken   atomic.Bool
	applied atomic.Bool

	mu    sync.Mutex
	conn  *conn // which the delivery was sent over last
	tries int   // connections that it was sent over
}

// NewCut returns a cut of one of the variants of plan.CutConnection.
func NewCut(how plan.How) *Cut { return &Cut{how: how} }

// Disarm keeps a cut that has found no delivery from doing so.
func (c *Cut) Disarm() { c.taken.Store(true) }

// Applied reports whether a connection was cut.
func (c *Cut) Applied() bool { return c.applied.Load() }

func (c *Cut) take() bool { return c.taken.CompareAndSwap(false, true) }

// roundTrip sends a request over a connection that will be cut.
func (c *Cut) roundTrip(base http.RoundTripper, r *http.Request) (*http.Response, error) {
	response, err := base.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), c.trace())))
	switch {
	case err != nil:
		return nil, err
	case c.how != plan.RequestSent:
		response.Body = &cutBody{ReadCloser: response.Body, cut: c}
		return response, nil
	case c.retried():
		return response, nil // the transport itself has sent it again, with the same key
	default: // the answer was faster than the cut
		_ = response.Body.Close()
		return nil, errCut
	}
}

func (c *Cut) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.conn = info.Conn.(*conn)
			c.tries++
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.how == plan.RequestSent && c.tries == 1 && info.Err == nil {
				c.conn.last.Store(c) // the end of the request is still in a buffer
			}
		},
	}
}

func (c *Cut) retried() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tries > 1
}

func (c *Cut) apply() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.Close()
	c.applied.Store(true)
}

// cutBody is an answer whose connection is cut when its first bytes are there.
type cutBody struct {
	io.ReadCloser
	cut *Cut
}

// Read implements io.Reader. It returns half of the bytes that have come, or none
// of them, and then fails.
func (b *cutBody) Read(p []byte) (int, error) {
	if b.cut.Applied() {
		return 0, errCut
	}
	n, err := b.ReadCloser.Read(p)
	if n == 0 {
		return 0, err
	}
	b.cut.apply()
	if b.cut.how == plan.AnswerLost {
		return 0, errCut
	}
	return n / 2, nil
}
