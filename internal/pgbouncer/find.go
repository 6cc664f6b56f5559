package pgbouncer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// find returns the program and, for one in a folder of unpacked packages, where
// its libraries are.
func find() (program, libraries string, err error) {
	if dir := os.Getenv("DEDUP_PGBOUNCER"); dir != "" {
		for _, below := range []string{"", "sbin", "bin", "usr/sbin", "usr/bin"} {
			if program := filepath.Join(dir, below, "pgbouncer"); isFile(program) {
				found, _ := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu"))
				return program, strings.Join(found, ":"), nil
			}
		}
	}
	if program, err := exec.LookPath("pgbouncer"); err == nil {
		return program, "", nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"} {
		if program := filepath.Join(dir, "pgbouncer"); isFile(program) {
			return program, "", nil
		}
	}
	return "", "", ErrAbsent
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
