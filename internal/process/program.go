package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find returns the path of another project's program, and what its environment has to have beside ours.
// It is looked for in a folder, into which scripts/unpack may have unpacked its package, in PATH, and
// where distributions put servers. No folder is "". The error wraps [exec.ErrNotFound].
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

// Tied runs a server under a shell that interrupts it when its own input ends: with a pipe for its input the
// server does not outlive this process, however that ends.
func Tied(program string, args ...string) *exec.Cmd {
	return exec.Command("/bin/sh", append([]string{"-c", `"$@" & read _; kill -INT $!; wait`, "sh", program}, args...)...)
}

// Checkout returns the folder with go.work that this process runs in, and "" where it runs in none.
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
