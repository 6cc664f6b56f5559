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

// CommandName is the hidden command by which a program that calls [Start] must
// run [Serve].
const CommandName = "delay"

// processors is the process's GOMAXPROCS, far above the number of cores. A
// goroutine that waits blocks its thread, and the thread keeps its share of the
// scheduler until the runtime notices, after up to 10 ms: with a share for every
// core, two that wait would stop all others. These shares are never all taken.
const processors = 128

// closeWait is how long the process may take to end.
const closeWait = 10 * time.Second

// A Process is a running process of proxies.
type Process struct {
	// Addrs are the proxies' addresses, one for each target, in their order.
	Addrs []string

	*process.Process
}

// Start runs this program again as a process of proxies, one for each target. It
// ends with [Process.Close], or with this process.
func Start(ctx context.Context, delay time.Duration, targets ...string) (*Process, error) {
	addrs := make(chan string, len(targets))
	started, err := process.Start(process.Command{
		Args: append([]string{CommandName, delay.String()}, targets...),
		Env:  []string{fmt.Sprintf("GOMAXPROCS=%d", processors)},
	}, nil, func(addr string) { addrs <- addr })
	if err != nil {
		return nil, fmt.Errorf("starting the delay proxy: %w", err)
	}
	p := &Process{Process: started}
	for len(p.Addrs) < len(targets) {
		select {
		case addr := <-addrs:
			p.Addrs = append(p.Addrs, addr)
		case <-p.Done():
			return nil, fmt.Errorf("starting the delay proxy: it ended early; does the program serve the command %q?", CommandName)
		case <-ctx.Done():
			p.Kill()
			return nil, ctx.Err()
		}
	}
	return p, nil
}

// Close ends the process, and with it every connection.
func (p *Process) Close() { p.Process.Close(closeWait) }

// Serve is the process that [Start] runs. The arguments are the delay and the
// targets; the proxies' addresses are written to out, a line of JSON each. It returns when
// in ends, which it does with the process that holds its other side. The listeners
// stay open until this process ends.
func Serve(in io.Reader, out io.Writer, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: delay DURATION HOST:PORT [HOST:PORT ...]")
	}
	delay, err := time.ParseDuration(args[0])
	if err != nil || delay < 0 {
		return fmt.Errorf("%q is no delay: it must be a duration, and not negative", args[0])
	}
	for _, target := range args[1:] {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go proxy(listener, target, delay)
		if err := json.NewEncoder(out).Encode(listener.Addr().String()); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
