//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

type shutdownSignal = syscall.Signal

// The signals by which a postmaster shuts down.
const (
	signalFast      = syscall.SIGINT  // rolls open transactions back
	signalImmediate = syscall.SIGQUIT // leaves them to the recovery
)

// goneWait is how long killed processes may take to disappear.
const goneWait = 10 * time.Second

// killAll ends the postmaster and its children with SIGKILL and returns when all
// are gone. The postmaster is halted first, so that it starts no child that the
// list would miss.
func (p *process) killAll() error {
	if p.ended() {
		return nil
	}
	pid := p.cmd.Process.Pid
	children, err := haltAndList(pid)
	_ = p.cmd.Process.Kill()
	for _, child := range children {
		_ = syscall.Kill(child.pid, syscall.SIGKILL)
	}
	<-p.done
	if err != nil {
		return err
	}
	return awaitGone(children)
}

// haltAndList stops the process pid and returns its children.
//
//nolint:forbidigo // the process table gives no signal to wait on
func haltAndList(pid int) ([]processInfo, error) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("halting process %d: %w", pid, err)
	}
	for deadline := time.Now().Add(goneWait); ; time.Sleep(time.Millisecond) {
		all, err := processes()
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(info processInfo) bool { return info.pid == pid })
		if i < 0 || all[i].halted() {
			return slices.DeleteFunc(all, func(info processInfo) bool { return info.parent != pid }), nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("process %d does not halt", pid)
		}
	}
}

// awaitGone returns when none of the processes runs any more. One that only waits
// for its parent to notice has let go of its memory, and counts as gone.
//
//nolint:forbidigo // the process table gives no signal to wait on
func awaitGone(gone []processInfo) error {
	for deadline := time.Now().Add(goneWait); ; time.Sleep(time.Millisecond) {
		all, err := processes()
		if err != nil {
			return err
		}
		running := slices.ContainsFunc(all, func(info processInfo) bool {
			return !info.dead() && slices.ContainsFunc(gone, func(g processInfo) bool {
				return g.pid == info.pid && g.started == info.started
			})
		})
		if !running {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the server's processes do not end")
		}
	}
}

// processInfo is what the system tells about a process.
type processInfo struct {
	pid, parent int
	state       byte   // as in ps: 'T' halted, 'Z' dead and not yet waited for
	started     string // tells it from a later process with the same pid
}

func (i processInfo) halted() bool { return i.state == 'T' }
func (i processInfo) dead() bool   { return i.state == 'Z' || i.state == 'X' }
