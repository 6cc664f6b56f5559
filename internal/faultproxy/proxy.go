// Package faultproxy is a TCP proxy for tests between a client and a real Postgres server. It
// understands the frames of the wire protocol, counts traffic, and injects faults exactly where a
// test aims them: for example at the unit with a COMMIT, before or after the server has executed
// it.
//
// It is made for the way pgx talks. It does not know COPY FROM STDIN through the extended protocol,
// nor statements prepared in SQL with PREPARE.
package faultproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy passes connections on to one server. Its methods may be called at any time from any
// goroutine.
type Proxy struct {
	upstream *upstream
	listener net.Listener
	ledger   ledger
	armory   armory
	refuse   atomic.Bool

	ctx    context.Context // done when the proxy closes
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{} // nil once the proxy is closed
}

// New starts a proxy for the server of a postgres:// URL on a free port of 127.0.0.1. It talks to
// the server without TLS, over TCP or a unix socket.
func New(upstreamURL string) (*Proxy, error) {
	up, err := parseUpstream(upstreamURL)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	p := &Proxy{upstream: up, listener: listener, links: map[*link]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.Reset()
	p.work.Go(p.accept)
	return p, nil
}

// URL is the upstream URL with the proxy's address, and with TLS disabled.
func (p *Proxy) URL() string { return p.upstream.via(p.listener.Addr().String()) }

// Close closes the listener and every connection and waits for all goroutines. Held units are
// dropped.
func (p *Proxy) Close() {
	p.cancel()
	_ = p.listener.Close()
	p.mu.Lock()
	for l := range p.links {
		l.close()
	}
	p.links = nil
	p.mu.Unlock()
	p.work.Wait()
}

// Refuse makes the proxy reset every new connection, or accept them again. Open connections go on.
func (p *Proxy) Refuse(refuse bool) { p.refuse.Store(refuse) }

// CutAll resets the clients of all open connections, and returns how many there were. The server
// sees the end of each stream after what it was sent.
func (p *Proxy) CutAll() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
	return len(p.links)
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		client := conn.(*net.TCPConn)
		if p.refuse.Load() {
			p.ledger.count(func(c *Snapshot) { c.Refused++ })
			reset(client)
			continue
		}
		l := &link{client: client, cut: newSignal()}
		if !p.register(l) {
			l.close()
			return
		}
		p.work.Go(func() {
			defer p.forget(l)
			p.serve(l)
		})
	}
}

// serve answers the requests before the start-up packet, and then runs the session or the cancel
// request.
func (p *Proxy) serve(l *link) {
	for {
		packet, code, err := readStartup(l.client)
		if err != nil {
			return
		}
		switch code {
		case codeSSL, codeGSS:
			if _, err := l.client.Write([]byte{'N'}); err != nil {
				return
			}
			continue
		case codeCancel:
			p.passCancel(l, packet)
			p.ledger.count(func(c *Snapshot) { c.Cancels++ })
			return
		}
		conn := p.ledger.connect()
		if p.dial(l) {
			newSession(p, l, conn).run(packet)
		}
		return
	}
}

// passCancel makes the client wait until the server has handled the request, as the server does.
func (p *Proxy) passCancel(l *link, packet []byte) {
	p.armory.mu.Lock()
	steered := p.armory.pilot != nil
	p.armory.mu.Unlock()
	if steered || !p.dial(l) {
		return
	}
	if _, err := l.server.Write(packet); err == nil {
		_, _ = io.Copy(io.Discard, l.server)
	}
}

func (p *Proxy) dial(l *link) bool {
	server, err := p.upstream.dial(p.ctx)
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.server = server
	return p.links != nil // otherwise Close missed it, and serve must not begin
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
	l.close()
	delete(p.links, l)
}
