package pgserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A postmaster is the first process of a server, and the parent of all others.
type postmaster struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; may be read once done is closed
}

func startPostmaster(cmd *exec.Cmd) (*postmaster, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &postmaster{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// ended reports whether it has ended, or never begun.
func (p *postmaster) ended() bool {
	if p == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop shuts the server down: fast, which rolls open transactions back, until ctx ends; then
// immediately, which leaves them to the recovery; then by force.
func (p *postmaster) stop(ctx context.Context) error {
	fast, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	immediate, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return p.end(fast, syscall.SIGINT, func() error {
		return p.end(immediate, syscall.SIGQUIT, p.kill)
	})
}

// end sends the signal, and goes on with otherwise if the server has not ended by it when ctx ends.
func (p *postmaster) end(ctx context.Context, signal syscall.Signal, otherwise func() error) error {
	_ = p.cmd.Process.Signal(signal) // fails only if it has ended
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return otherwise()
	}
}

// kill ends the postmaster and its children with SIGKILL.
func (p *postmaster) kill() error {
	if p.ended() {
		return nil
	}
	err := p.signal(syscall.SIGKILL)
	<-p.done
	return err
}

// signal halts, continues or kills the postmaster and its children. The postmaster is halted first,
// so that it starts no child that the list would miss.
func (p *postmaster) signal(signal syscall.Signal) error {
	if p.ended() {
		return nil
	}
	pid := p.cmd.Process.Pid
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	children, err := childrenOf(pid)
	for _, process := range append(children, pid) {
		_ = syscall.Kill(process, signal) // or it has ended
	}
	return err
}

// childrenOf asks the system for the children of a process.
func childrenOf(pid int) (children []int, err error) {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil { // as on any system but Linux
		if list, err = exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output(); err != nil {
			return nil, fmt.Errorf("listing the children of process %d: pgrep: %w", pid, err)
		}
	}
	for field := range strings.FieldsSeq(string(list)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return children, nil
}
