package pgserver

import (
	"os"
	"syscall"
)

const (
	memoryDir = "/dev/shm"

	// memoryRoom is what has to be free there: a server and its tests need a
	// few hundred megabytes. Containers often have 64 MB in all.
	memoryRoom = 2 << 30

	tmpfsMagic = 0x01021994 // TMPFS_MAGIC of statfs(2)
)

// tempRoots returns the folders under which the data of a private server may be.
// The first is for data that need not survive a crash of the machine: it lies in
// memory, unless TMPDIR says otherwise or there is little room. Creating and
// dropping databases makes and deletes hundreds of files, which ext4 for one is
// slow at: it took twenty times as long there.
func tempRoots() (fast, durable string) {
	durable = os.TempDir()
	if os.Getenv("TMPDIR") == "" && hasRoom(memoryDir) {
		return memoryDir, durable
	}
	return durable, durable
}

// hasRoom reports whether the folder is in memory and has enough left.
func hasRoom(dir string) bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return false
	}
	//nolint:unconvert // the type differs between architectures
	return int64(fs.Type) == tmpfsMagic && fs.Bavail*uint64(fs.Bsize) >= memoryRoom
}
