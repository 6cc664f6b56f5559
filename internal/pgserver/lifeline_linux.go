package pgserver

import (
	"os/exec"
	"syscall"
)

// startTied starts the command such that the kernel ends it with the thread that
// calls startTied. An immediate shutdown takes the server's children along.
func startTied(cmd *exec.Cmd) (release func(), err error) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	return func() {}, cmd.Start()
}
