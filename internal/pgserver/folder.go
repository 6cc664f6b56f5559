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

	// memoryRoom is what has to be free there: a server and its tests need a
	// few hundred megabytes. Containers often have 64 MB in all.
	memoryRoom = 2 << 30
)

// tempRoot returns the folder for temporary folders. Where the data need not be durable it is in
// memory, unless TMPDIR says otherwise or there is little room: creating and dropping
// databases makes and deletes hundreds of files, which took twenty times as long on ext4.
func tempRoot(durable bool) string {
	if !durable && os.Getenv("TMPDIR") == "" && hasRoom(memoryDir) {
		return memoryDir
	}
	return os.TempDir()
}

// hasRoom reports whether the folder has enough left. Only Linux has a /dev/shm, which is in memory.
func hasRoom(dir string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= memoryRoom
}

// watch is a shell that does nothing until its input ends. The other end of the pipe is held by
// this process alone, so that it is read when this process ends, however it ends. The postmaster
// writes its process id into the first line of postmaster.pid.
const watch = `read _; kill -QUIT "$(head -n 1 "$0/data/postmaster.pid")"; sleep 1; rm -rf "$0"`

// startWatchdog ends the server in the folder, and removes the folder, if this process ends before
// it has called release.
func startWatchdog(dir string, account *Account) (release func(), err error) {
	dog := exec.Command("/bin/sh", "-c", watch, dir)
	dog.Dir, dog.SysProcAttr = "/", account.attributes()
	var leash io.WriteCloser
	if leash, err = dog.StdinPipe(); err == nil {
		err = dog.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	return func() {
		_ = dog.Process.Kill()
		_ = dog.Wait()
		_ = leash.Close()
	}, nil
}
