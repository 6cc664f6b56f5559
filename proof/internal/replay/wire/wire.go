// Package wire is the driver's end of the connections to a worker's server. A
// planned fault cuts the one that a delivery is made over.
package wire

import (
	"context"
	"net/http"
	"sync"
)

// Transport sends the requests to one worker.
type Transport struct {
	base *http.Transport

	mu  sync.Mutex
	cut *Cut // the one armed last
}

// New returns a Transport. It must be closed.
func New() *Transport { return &Transport{base: newBase()} }

type deliveryKey struct{}

// Delivery marks the requests of ctx as those that make a delivery. No others are
// cut.
func Delivery(ctx context.Context) context.Context {
	return context.WithValue(ctx, deliveryKey{}, true)
}

// Arm lets a cut befall the next delivery, unless it befalls one of another
// transport before.
func (t *Transport) Arm(c *Cut) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut = c
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(deliveryKey{}) != nil {
		if cut := t.armed(); cut != nil && cut.take() {
			return cut.roundTrip(t.base, r)
		}
	}
	return t.base.RoundTrip(r)
}

func (t *Transport) armed() *Cut {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cut
}

// Close closes the connections that nothing is sent over.
func (t *Transport) Close() { t.base.CloseIdleConnections() }
