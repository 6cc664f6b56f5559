package bed

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// requireDisk refuses a folder in memory, where fsync costs nothing.
func requireDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("asking for the file system of the data: %w", err)
	}
	if int64(fs.Type) == unix.TMPFS_MAGIC { //nolint:unconvert // the type differs between architectures
		return fmt.Errorf("the server's data is in memory, below %s: set TMPDIR to a folder on a disk", dir)
	}
	return nil
}
