//go:build unix

package outside

import (
	"os"
	"syscall"
)

// halt stops a process in the middle of what it does, and resume lets it go on.
func halt(p *os.Process) error   { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// The signals by which a server shuts down.
var signalFast, signalImmediate = syscall.SIGINT, syscall.SIGQUIT

func signal(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }
