// Package process starts a worker process, often this program with a hidden command, and exchanges
// lines of JSON with it. It also finds programs of other projects, and runs servers that end with
// this process.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Command describes how to start a worker.
type Command struct {
	Program string // default: this program
	Args    []string
	Env     []string  // added to this process's environment
	Stderr  io.Writer // default: os.Stderr
}

// Process is a worker.
type Process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	done    chan struct{}
	err     error      // how it ended
	writing sync.Mutex // guards in
}

// Start starts a worker and sends it hello, unless that is nil. It calls receive with each line of
// the worker's output, one at a time. A line that is not JSON ends the worker.
func Start[Line any](c Command, hello any, receive func(Line)) (p *Process, err error) {
	if c.Program == "" {
		if c.Program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	p = &Process{cmd: exec.Command(c.Program, c.Args...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), c.Env...), c.Stderr
	if c.Stderr == nil {
		p.cmd.Stderr = os.Stderr
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	go func() {
		defer close(p.done)
		for lines := json.NewDecoder(bufio.NewReader(out)); ; {
			var line Line
			if lines.Decode(&line) != nil {
				break // the end, or an invalid line
			}
			receive(line)
		}
		_ = p.cmd.Process.Kill() // after invalid output the worker may still run
		p.err = p.cmd.Wait()
	}()
	if hello == nil {
		return p, nil
	}
	if err := p.Send(hello); err != nil {
		p.Kill()
		return nil, fmt.Errorf("greeting a worker: %w", err)
	}
	return p, nil
}

// Send writes a line to the worker.
func (p *Process) Send(line any) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	return json.NewEncoder(p.in).Encode(line)
}

// Done is closed when the worker ended and all its lines were received.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether Done is closed.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err returns the worker's error, nil for exit code 0. Call it after Done is closed.
func (p *Process) Err() error { return p.err }

// Signal sends the worker a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the worker with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Close closes the worker's input, and kills the worker if it has not ended after wait.
func (p *Process) Close(wait time.Duration) {
	_ = p.in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Kill()
	}
}
