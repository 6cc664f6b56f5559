package faultproxy

import "net"

// link is a client's connection with the one to the server that belongs to it.
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

// hangUp closes the connection of the client with a FIN; what was written to it still arrives.
func (l *link) hangUp() {
	l.cut.fire()
	_ = l.client.Close()
}

// cutOff resets the client, or gives it an answer that the server has not given and hangs up.
func (l *link) cutOff(answer []byte) {
	if answer == nil {
		l.reset()
		return
	}
	_, _ = l.client.Write(answer) // a client that has gone does not want it
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
