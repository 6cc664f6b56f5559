package pgserver

import (
	"os"
	"os/exec"
)

type shutdownSignal = os.Signal

// Windows has no signals: both kinds of shutdown end the server by force, which
// its temporary data can bear.
var (
	signalFast      os.Signal = os.Kill
	signalImmediate os.Signal = os.Kill
)

// killAll ends the postmaster; its children notice and end by themselves.
func (p *process) killAll() error {
	_ = p.cmd.Process.Kill()
	<-p.done
	return nil
}

// startTied starts the command. Windows offers nothing by which it would end
// with this process, short of a job object.
func startTied(cmd *exec.Cmd) (release func(), err error) {
	return func() {}, cmd.Start()
}
