//go:build unix

package outside

import "syscall"

// The signals that halt a process in the middle of what it does, and let it go on; and those by which
// a server shuts down.
const (
	signalHalt, signalResume    = syscall.SIGSTOP, syscall.SIGCONT
	signalFast, signalImmediate = syscall.SIGINT, syscall.SIGQUIT
)

func signal(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }
