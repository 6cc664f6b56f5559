package pgserver

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

const (
	memoryDir = "/dev/shm"

	// memoryRoom is the free space that memoryDir must have: a server and its tests need a few
	// hundred megabytes. Containers often have only 64 MB.
	memoryRoom = 2 << 30
)

// tempRoot returns the parent of temporary folders. If the data need not be durable, it is in
// memory, unless TMPDIR is set or there is little room. Creating and dropping databases makes and
// deletes hundreds of files, which took twenty times as long on ext4.
func tempRoot(durable bool) string {
	if !durable && os.Getenv("TMPDIR") == "" && hasRoom(memoryDir) {
		return memoryDir
	}
	return os.TempDir()
}

// hasRoom reports whether the folder has enough left. Only Linux has a /dev/shm, which is in
// memory.
func hasRoom(dir string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= memoryRoom
}

// watch is a shell that does nothing until its input ends. The other end of the pipe is held by
// this process alone, so that it is read when this process ends, however it ends. Then the shell
// ends the programs of its process group, and removes the folder: again while a program that has
// not ended yet puts files into it.
const watch = `trap '' QUIT; read _; kill -QUIT 0; for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 1; rm -rf "$0" && exit; done`

// startWatchdog ends the programs of a process group and removes the folder, if this process ends
// before it has called release.
func startWatchdog(dir string) (group int, release func(), err error) {
	dog := exec.Command("/bin/sh", "-c", watch, dir)
	dog.Dir, dog.SysProcAttr = "/", (*Account)(nil).attributes(0) // the account that made the folder can remove it
	var leash io.WriteCloser
	if leash, err = dog.StdinPipe(); err == nil {
		err = dog.Start()
	}
	if err != nil {
		return 0, nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	return dog.Process.Pid, func() {
		_ = dog.Process.Kill()
		_ = dog.Wait()
		_ = leash.Close()
	}, nil
}
