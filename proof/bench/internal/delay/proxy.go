// Package delay makes a local server a remote one: a TCP proxy that adds a fixed delay each way.
// Every chunk is stamped at its arrival and written after its delay, in order. Pipelining therefore
// costs the same as on a real network: chunks that are under way together wait together, and the
// throughput is not limited.
//
// The proxy is a separate process, see [Start]: in the measured process its goroutines would
// compete with the clients for the scheduler. internal/faultproxy runs in the measured process and
// waits with Go's timers.
package delay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tooldedup/dedup/internal/process"
)

// CommandName is the hidden command that runs [Serve]. A program that calls [Start] must have it.
const CommandName = "delay"

const (
	// processors is the process's GOMAXPROCS, far above the number of cores. A
	// goroutine that waits blocks its thread, and the thread keeps its share of the
	// scheduler until the runtime notices, after up to 10 ms: with a share for every
	// core, two that wait would stop all others. These shares are never all taken.
	processors = 128

	// closeWait bounds the end of the process.
	closeWait = 10 * time.Second

	chunkSize = 64 << 10

	// underWay is the number of chunks of one direction that may wait for their time. It is far
	// more than a connection needs, so it never limits the throughput, and it bounds the memory of
	// a stuck reader.
	underWay = 4096
)

// Start runs this program again as the process of a proxy for the target, and returns the proxy's
// address. The process ends with stop, or with this one.
func Start(ctx context.Context, delay time.Duration, target string) (addr string, stop func(), err error) {
	line := make(chan string, 1)
	p, err := process.Start(process.Command{
		Args: []string{CommandName, delay.String(), target},
		Env:  []string{fmt.Sprintf("GOMAXPROCS=%d", processors)},
	}, nil, func(addr string) { line <- addr })
	if err != nil {
		return "", nil, fmt.Errorf("starting the delay proxy: %w", err)
	}
	select {
	case addr := <-line:
		return addr, func() { p.Close(closeWait) }, nil
	case <-p.Done():
		return "", nil, fmt.Errorf("starting the delay proxy: it ended early; does the program serve the command %q?", CommandName)
	case <-ctx.Done():
		p.Kill()
		return "", nil, ctx.Err()
	}
}

// Serve is the process that [Start] runs. The arguments are the delay and the
// target; the proxy's address is written to out, a line of JSON. It returns when
// in ends, which it does with the process that holds its other side. The listener
// stays open until this process ends.
func Serve(in io.Reader, out io.Writer, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: delay DURATION HOST:PORT")
	}
	delay, err := time.ParseDuration(args[0])
	if err != nil || delay < 0 {
		return fmt.Errorf("%q is no delay: it must be a duration, and not negative", args[0])
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go proxy(listener, args[1], delay)
	if err := json.NewEncoder(out).Encode(listener.Addr().String()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// proxy passes the connections that a listener takes on to the target, for as long as the process
// runs.
func proxy(listener net.Listener, target string, delay time.Duration) {
	for {
		client, err := listener.Accept()
		if err != nil {
			continue // a client that gave up before it was taken
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		go pipe(client, server, delay)
		go pipe(server, client, delay)
	}
}

// A chunk is what one read returned, and when it is written.
type chunk struct {
	due   time.Time
	bytes []byte
}

// pipe carries one direction to its end, and closes both connections then.
func pipe(from, to net.Conn, delay time.Duration) {
	chunks := make(chan chunk, underWay)
	go func() {
		defer close(chunks)
		for buffer := make([]byte, chunkSize); ; {
			n, err := from.Read(buffer)
			chunks <- chunk{time.Now().Add(delay), append([]byte(nil), buffer[:n]...)}
			if err != nil {
				return
			}
		}
	}()
	for c := range chunks { // to the end: the reader must not wait for ever
		sleepUntil(c.due)
		if _, err := to.Write(c.bytes); err != nil {
			_ = from.Close()
		}
	}
	_, _ = to.Close(), from.Close()
}
