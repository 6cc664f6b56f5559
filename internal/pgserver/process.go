package pgserver

import (
	"context"
	"os/exec"
	"runtime"
	"time"
)

const (
	shutdownWait = 10 * time.Second // for a fast shutdown
	quitWait     = 5 * time.Second  // for an immediate one
)

// A process is a program that does not outlive ours, however ours ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended
	err  error         // how it ended; may be read once done is closed
}

// startProcess starts the command and waits for its end in the background. The
// waiting goroutine keeps its thread to itself: on Linux the program would end
// with the thread that started it.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()

		release, err := startTied(cmd)
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		release()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// ended reports whether the program has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// shutdown ends a postmaster: a fast shutdown for as long as wait and ctx allow,
// then an immediate one, then by force.
func (p *process) shutdown(ctx context.Context, wait time.Duration) {
	if wait > 0 && p.end(ctx, signalFast, wait) {
		return
	}
	if p.end(context.WithoutCancel(ctx), signalImmediate, quitWait) {
		return
	}
	_ = p.killAll() // waits for the postmaster in any case
}

// end sends the signal and reports whether the program ended in time.
func (p *process) end(ctx context.Context, signal shutdownSignal, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_ = p.cmd.Process.Signal(signal) // fails only if it has ended
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return p.ended()
	}
}
