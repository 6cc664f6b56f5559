package mcpdedup_test

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// cutProxy passes TCP connections on to a server, and cuts one in place of the
// answer to the first call of a tool: the server has committed, and the client is
// not told. From the call on everything that comes back is held, so that the
// client does not get the half of an answer either.
type cutProxy struct {
	target string
	done   chan struct{} // closed with the cut
	once   sync.Once
	answer string // what was kept back, once done is closed
}

func newCutProxy(t *testing.T, target string) (proxy *cutProxy, url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &cutProxy{target: target, done: make(chan struct{})}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(t, client) })
		}
	})
	return p, "http://" + l.Addr().String()
}

func (p *cutProxy) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *cutProxy) serve(t *testing.T, client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		t.Errorf("connecting to the server: %v", err)
		return
	}
	defer server.Close()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // the test's end ends what the client left open
		select {
		case <-t.Context().Done():
			client.Close()
			server.Close()
		case <-stop:
		}
	}()

	var both sync.WaitGroup
	holding := make(chan struct{})
	both.Go(func() {
		defer server.Close()
		var sent []byte
		var held bool
		copyBy(server, client, func(chunk []byte) bool {
			if sent = append(sent, chunk...); !held && !p.isDone() && bytes.Contains(sent, []byte(`"tools/call"`)) {
				held = true
				close(holding) // before the server sees the call
			}
			return true
		})
	})
	both.Go(func() {
		defer client.Close()
		var held []byte
		copyBy(client, server, func(chunk []byte) bool {
			select {
			case <-holding:
			default:
				return true
			}
			if held = append(held, chunk...); bytes.Contains(held, []byte(`"jsonrpc"`)) {
				p.once.Do(func() { p.answer = string(held); close(p.done) })
				client.Close()
				server.Close()
			}
			return false
		})
	})
	both.Wait()
}

// copyBy copies the chunks that pass.
func copyBy(to, from net.Conn, pass func(chunk []byte) bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if pass(buf[:n]) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}
