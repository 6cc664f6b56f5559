// Package process starts a worker, most often this program again as one of its hidden commands, and
// talks to it in lines of JSON until it ends or is killed. It also finds programs of other projects, and
// runs servers that end with this process.
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

// Command says how a worker is started.
type Command struct {
	Program string // this one, where it is empty
	Args    []string
	Env     []string  // beside the environment of this process
	Stderr  io.Writer // os.Stderr, where it is nil
}

// Process is a worker.
type Process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	done    chan struct{}
	err     error      // how it ended
	writing sync.Mutex // guards in
}

// Start starts a worker, and sends it a first line unless that is nil. It calls receive with each
// line that the worker writes, one after the other. A line that is no JSON ends the worker.
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
				break // the end, or a line that was cut
			}
			receive(line)
		}
		_ = p.cmd.Process.Kill() // it may have written nonsense and live
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

// Done is closed when the worker has ended and all its lines were received.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether it is.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err says how the worker has ended: nil for an exit code of 0. Call it after Done.
func (p *Process) Err() error { return p.err }

// Signal sends the worker a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the worker with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Close ends the worker by the end of its input, and kills it where that takes longer than wait.
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
