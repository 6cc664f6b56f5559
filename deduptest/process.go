package deduptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// childStart bounds how long a process may take until it has warmed up.
const childStart = time.Minute

// longestAnswer is more than a record can hold.
const longestAnswer = 512 << 20

// childError is the error of a call in another process.
type childError struct {
	text      string
	retryable bool
}

func (e *childError) Error() string { return e.text }

// child is a process that calls the tool.
type child struct {
	command *exec.Cmd
	input   io.WriteCloser
	said    chan message // closed when the process has ended
	stderr  bytes.Buffer
	cancel  context.CancelFunc
}

// startChild starts this very program again and waits until it has warmed up.
func (v *verification) startChild(ctx context.Context, p *Proxy, key string) (*child, error) {
	if !testing.Testing() {
		return nil, errors.New("only a test binary can be started again; turn the scenario off by Options.Without")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the test binary: %w", err)
	}
	text, err := json.Marshal(errand{Tool: v.tool.Name, URL: p.URL(), WarmUp: v.newKey(), Key: key, Patience: v.patience})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &child{command: exec.CommandContext(ctx, program, "-test.run=^$"), said: make(chan message, 2), cancel: cancel}
	c.command.Env = append(os.Environ(), childEnv+"="+string(text))
	c.command.Stderr = &c.stderr
	v.counted = -1
	if err := c.start(); err != nil {
		cancel()
		return nil, fmt.Errorf("starting the test binary again: %w", err)
	}
	select {
	case m, spoke := <-c.said:
		if m.Ready {
			return c, nil
		}
		err = errors.New(m.Err)
		if !spoke {
			err = errors.New("the test binary, started again, did not make the call; call deduptest.Child at the beginning of TestMain, or turn the scenario off by Options.Without")
		}
	case <-time.After(childStart):
		err = fmt.Errorf("the test binary, started again, did not come to the call within %s; call deduptest.Child before anything else in TestMain", childStart)
	}
	c.end()
	if told := strings.TrimSpace(c.stderr.String()); told != "" {
		err = fmt.Errorf("%w; it wrote: %s", err, clipped(told, 500))
	}
	return nil, err
}

func (c *child) start() (err error) {
	if c.input, err = c.command.StdinPipe(); err != nil {
		return err
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.command.Start(); err != nil {
		return err
	}
	go c.listen(out)
	return nil
}

// listen passes on what the process says, until it ends.
func (c *child) listen(out io.Reader) {
	defer close(c.said)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, longestAnswer)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), messageMark)
		var m message
		if ok && json.Unmarshal([]byte(text), &m) == nil {
			c.said <- m
		}
	}
}

// call lets the process make the call that counts.
func (c *child) call(tr *trial) <-chan reply {
	tr.out.Calls++
	replies := make(chan reply, 1)
	go func() {
		if _, err := io.WriteString(c.input, "go\n"); err != nil {
			replies <- reply{err: fmt.Errorf("the process has ended: %w", err)}
			return
		}
		switch m, spoke := <-c.said; {
		case !spoke:
			replies <- reply{err: errors.New("the process ended without an answer")}
		case m.Err != "":
			replies <- reply{err: &childError{m.Err, m.Retryable}}
		default:
			replies <- reply{text: m.Answer}
		}
	}()
	return replies
}

// kill ends the process without giving it time for anything.
func (c *child) kill() error {
	if err := c.command.Process.Kill(); err != nil {
		return fmt.Errorf("killing the process: %w", err)
	}
	c.end()
	return nil
}

// end waits until the process is gone. Calling it again does nothing.
func (c *child) end() {
	c.cancel()
	for range c.said {
	}
	_ = c.command.Wait() // it was killed
}
