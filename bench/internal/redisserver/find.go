package redisserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// find returns the program and, for one in a folder of unpacked packages, where
// its libraries are.
func find(folder string) (program, libraries string, err error) {
	if program, err := exec.LookPath("redis-server"); err == nil {
		return program, "", nil
	}
	if program := filepath.Join(folder, "usr/bin/redis-server"); isFile(program) {
		found, err := filepath.Glob(filepath.Join(folder, "usr/lib/*-linux-gnu"))
		return program, strings.Join(found, ":"), err
	}
	return "", "", ErrAbsent
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
