//go:build unix && !linux

package pgserver

import "os/exec"

// startTied starts the command, and a watchdog that ends it with this process.
func startTied(cmd *exec.Cmd) (release func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	release, err = startWatchdog(cmd.Process.Pid, cmd.SysProcAttr)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return release, err
}
