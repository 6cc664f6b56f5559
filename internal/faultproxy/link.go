package faultproxy

import "net"

// link is a client's connection and its connection to the server.
type link struct {
	client *net.TCPConn
	server serverConn // nil until dialed; written once, under Proxy.mu
	cut    signal     // fired when the proxy has cut the client off
}

// reset breaks the connection of the client with a RST.
func (l *link) reset() {
	l.cut.fire()
	reset(l.client)
}

// hangUp closes the connection of the client with a FIN. Earlier output still arrives.
func (l *link) hangUp() {
	l.cut.fire()
	_ = l.client.Close()
}

// cutOff resets the client, or sends it a made-up answer and hangs up.
func (l *link) cutOff(answer []byte) {
	if answer == nil {
		l.reset()
		return
	}
	_, _ = l.client.Write(answer) // the client may have gone
	l.hangUp()
}

// wasCut reports whether the proxy has cut the client off.
func (l *link) wasCut() bool {
	select {
	case <-l.cut.c:
		return true
	default:
		return false
	}
}

func (l *link) close() {
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

func reset(client *net.TCPConn) {
	_ = client.SetLinger(0)
	_ = client.Close()
}
