//go:build unix

package pgserver

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// startWatchdog starts a shell that reads from a pipe whose other end only this
// process holds. When this process ends, however it ends, the shell reads the end
// of the file and shuts the process pid down. The attributes say as which account.
// Call release once pid has ended: the watchdog ends without doing anything.
//
// It serves where the kernel has no signal for a parent's death, as Linux has.
func startWatchdog(pid int, attr *syscall.SysProcAttr) (release func(), err error) {
	dog := exec.Command("/bin/sh", "-c", `read _; kill -QUIT "$0" 2>/dev/null`, strconv.Itoa(pid))
	dog.SysProcAttr = attr
	leash, err := dog.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	if err := dog.Start(); err != nil {
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	return func() {
		_ = dog.Process.Kill()
		_ = dog.Wait()
		_ = leash.Close()
	}, nil
}
