package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find returns the path of another project's program, and variables to add to its environment. It
// searches folder, into which scripts/unpack may have unpacked the program's package, then PATH,
// then the folders in which distributions install servers. An empty folder is skipped. The error
// wraps [exec.ErrNotFound].
func Find(program, folder string) (path string, env []string, err error) {
	if folder != "" {
		if folder, err = filepath.Abs(folder); err != nil {
			return "", nil, err
		}
		for _, below := range []string{"", "sbin", "bin", "usr/sbin", "usr/bin"} {
			if path, err := exec.LookPath(filepath.Join(folder, below, program)); err == nil {
				if libraries, _ := filepath.Glob(filepath.Join(folder, "usr/lib/*-linux-gnu")); libraries != nil {
					env = []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}
				}
				return path, env, nil
			}
		}
	}
	for _, dir := range []string{"", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"} {
		if path, err = exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil, nil
		}
	}
	return "", nil, &exec.Error{Name: program, Err: exec.ErrNotFound}
}

// Tied returns a command that runs a server under a shell. The shell interrupts the server when its
// own input ends. If the input is a pipe of this process, the server does not outlive the process.
func Tied(program string, args ...string) *exec.Cmd {
	return exec.Command("/bin/sh", append([]string{"-c", `"$@" & read _; kill -INT $!; wait`, "sh", program}, args...)...)
}

// Checkout returns the nearest parent folder with a go.work, or "".
func Checkout() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return ""
}
