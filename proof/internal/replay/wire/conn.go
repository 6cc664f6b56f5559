package wire

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// conn is a connection that can be cut behind the end of a request.
type conn struct {
	net.Conn
	// last is a cut that befalls the connection after its next write.
	last atomic.Pointer[Cut]
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if cut := c.last.Swap(nil); cut != nil && err == nil {
		cut.apply()
	}
	return n, err
}

func newBase() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: dialed}, nil
	}}
}
