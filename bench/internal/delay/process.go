package delay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"
)

// CommandName is the hidden command by which a program that calls [Start] must
// run [Serve].
const CommandName = "delay"

// processors is the process's GOMAXPROCS, far above the number of cores. A
// goroutine that waits blocks its thread, and the thread keeps its share of the
// scheduler until the runtime notices, after up to 10 ms: with a share for every
// core, two that wait would stop all others. These shares are never all taken.
const processors = 128

// A Process is a running process of proxies.
type Process struct {
	// Addrs are the proxies' addresses, one for each target, in their order.
	Addrs []string

	cmd   *exec.Cmd
	stdin io.Closer
}

// Start runs this program again as a process of proxies, one for each target. It
// ends with [Process.Close], with ctx, or with this process.
func Start(ctx context.Context, delay time.Duration, targets ...string) (_ *Process, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("starting the delay proxy: %w", err)
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{CommandName, delay.String()}, targets...)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", processors))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, stdin: stdin}
	for lines := bufio.NewScanner(stdout); len(p.Addrs) < len(targets); {
		if !lines.Scan() {
			return nil, fmt.Errorf("it ended early; does the program serve the command %q? %w", CommandName, errors.Join(lines.Err(), p.Close()))
		}
		p.Addrs = append(p.Addrs, lines.Text())
	}
	return p, nil
}

// Close ends the process, and with it every connection.
func (p *Process) Close() error {
	_ = p.stdin.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("ending the delay proxy: %w", err)
	}
	return nil
}

// Serve is the process that [Start] runs. The arguments are the delay and the
// targets; the proxies' addresses are written to out, a line each. It returns when
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
		fmt.Fprintln(out, listener.Addr())
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
