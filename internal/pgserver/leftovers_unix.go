//go:build unix

package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ownerName is the file in a server's temporary folder that its process keeps
// locked. The system drops the lock when the process ends, however it ends.
const ownerName = "owner"

// lockOwner marks the folder as in use by this process until the returned file is
// closed. The file gets its name when it is locked, so that no other process can
// take the folder for a left-over in between.
func lockOwner(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, ownerName+".new"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, ownerName))
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking the folder: %w", err)
	}
	return f, nil
}

// sweep removes the folders of servers whose process has ended without removing
// them, as a test binary that is killed or runs into its time limit does. What it
// may not read or remove it leaves alone.
func sweep(tempDir string) {
	owners, _ := filepath.Glob(filepath.Join(tempDir, tempPattern, ownerName))
	for _, path := range owners {
		removeIfAbandoned(path)
	}
}

// removeIfAbandoned removes the folder of an owner's file that nobody has locked.
func removeIfAbandoned(path string) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
}
