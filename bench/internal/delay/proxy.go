// Package delay makes a local server a remote one: a TCP proxy that adds a fixed
// delay each way. Every chunk is stamped when it arrives and written when its
// delay has passed, in order, so that pipelining costs what it costs on a real
// network: chunks under way at the same time wait at the same time, and the
// throughput is not limited.
//
// Time is the subject, so the proxy is a process of its own, see [Start]: in the
// process that is measured, its goroutines would compete with the clients for the
// scheduler.
package delay

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 64 << 10

	// underWay is how many chunks of one direction may be waiting for their
	// time. It is far more than a connection needs, so that it never limits
	// the throughput, and bounds what a stuck reader can pile up.
	underWay = 4096
)

// proxy passes the connections that a listener takes on to the target, a host and
// port, for as long as the process runs.
func proxy(listener net.Listener, target string, delay time.Duration) {
	for {
		if client, err := listener.Accept(); err == nil { // else a client that gave up before it was taken
			go pass(client.(*net.TCPConn), target, delay)
		}
	}
}

func pass(client *net.TCPConn, target string, delay time.Duration) {
	conn, err := net.Dial("tcp", target)
	if err != nil {
		reset(client)
		return
	}
	server := conn.(*net.TCPConn)
	var pipes sync.WaitGroup
	pipes.Go(func() { pipe(client, server, delay) })
	pipes.Go(func() { pipe(server, client, delay) })
	pipes.Wait()
	_, _ = client.Close(), server.Close()
}

// reset ends connections as a crash would: the peers read "connection reset".
func reset(conns ...*net.TCPConn) {
	for _, conn := range conns {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}

// A chunk is what one read returned: bytes, or how the stream ended.
type chunk struct {
	due   time.Time
	bytes []byte
	end   error // io.EOF for a half-close, anything else for a reset
}

// pipe carries one direction to its end.
func pipe(from, to *net.TCPConn, delay time.Duration) {
	queue := make(chan chunk, underWay)
	go stamp(from, queue, delay)
	if err := deliver(to, queue); err != nil {
		reset(from, to)
	}
	for range queue { // lets the reader, whose connection is closed, come to its end
	}
}

// stamp reads chunks and gives each the time at which it is due.
func stamp(from io.Reader, queue chan<- chunk, delay time.Duration) {
	defer close(queue)
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		due := time.Now().Add(delay)
		if n > 0 {
			queue <- chunk{due: due, bytes: append([]byte(nil), buffer[:n]...)}
		}
		if err != nil {
			queue <- chunk{due: due, end: err}
			return
		}
	}
}

// deliver writes each chunk when it is due, and passes a half-close on. Its error
// means that the connections are to be reset.
func deliver(to *net.TCPConn, queue <-chan chunk) error {
	for c := range queue {
		if err := sleepUntil(c.due); err != nil {
			return err
		}
		if errors.Is(c.end, io.EOF) {
			return to.CloseWrite()
		}
		if c.end != nil {
			return c.end
		}
		if _, err := to.Write(c.bytes); err != nil {
			return err
		}
	}
	return nil
}
