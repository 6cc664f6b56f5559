package delay

import (
	"errors"
	"io"
	"net"
	"time"
)

const (
	chunkSize = 64 << 10

	// underWay is how many chunks of one direction may be waiting for their
	// time. It is far more than a connection needs, so that it never limits
	// the throughput, and bounds what a stuck reader can pile up.
	underWay = 4096
)

// A chunk is what one read returned: bytes, or how the stream ended.
type chunk struct {
	due   instant
	bytes []byte
	end   error // io.EOF for a half-close, anything else for a reset
}

// pipe carries one direction of the link to its end.
func (l *link) pipe(from, to *net.TCPConn, delay time.Duration) {
	queue := make(chan chunk, underWay)
	go func() {
		defer close(queue)
		stamp(from, queue, delay)
	}()
	if err := deliver(to, queue); err != nil {
		l.reset()
	}
	for range queue { // lets the reader, whose connection is closed, come to its end
	}
}

// stamp reads chunks and gives each the time at which it is due.
func stamp(from io.Reader, queue chan<- chunk, delay time.Duration) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		due := now().add(delay)
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
// means that the link is to be reset.
func deliver(to *net.TCPConn, queue <-chan chunk) error {
	for c := range queue {
		if err := sleepUntil(c.due); err != nil {
			return err
		}
		switch {
		case c.end == nil:
			if _, err := to.Write(c.bytes); err != nil {
				return err
			}
		case errors.Is(c.end, io.EOF):
			return to.CloseWrite()
		default:
			return c.end
		}
	}
	return nil
}
