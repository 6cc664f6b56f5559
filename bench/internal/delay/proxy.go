package delay

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A Proxy passes TCP connections on to one address, delayed each way.
type Proxy struct {
	target   string
	delay    time.Duration
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{} // nil once the proxy is closed
}

// A link is the two connections that the proxy stands between.
type link struct{ client, server *net.TCPConn }

// Listen starts a proxy on a free port of 127.0.0.1 that leads to the target, a
// host and port.
func Listen(target string, delay time.Duration) (*Proxy, error) {
	if delay < 0 {
		return nil, fmt.Errorf("starting the delay proxy: a delay of %s would be a gift", delay)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the delay proxy: %w", err)
	}
	p := &Proxy{target: target, delay: delay, listener: listener, links: map[*link]struct{}{}}
	p.work.Go(p.accept)
	return p, nil
}

// Addr is the host and port on which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets every connection and waits for all goroutines.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for l := range p.links {
		l.reset()
	}
	p.links = nil
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // a client that gave up before it was taken
		}
		p.work.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	l := &link{client: client, server: conn.(*net.TCPConn)}
	defer l.close()
	if !p.register(l) {
		return
	}
	defer p.forget(l)

	var pipes sync.WaitGroup
	pipes.Go(func() { l.pipe(l.client, l.server, p.delay) })
	pipes.Go(func() { l.pipe(l.server, l.client, p.delay) })
	pipes.Wait()
}

func (p *Proxy) register(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links == nil {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// reset ends both connections as a crash would: the peers read "connection reset".
func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.server.SetLinger(0)
	l.close()
}
