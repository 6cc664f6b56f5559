//go:build !linux

package pgserver

import "os"

// tempRoots returns the folders under which the data of a private server may be.
// The first is for data that need not survive a crash of the machine; only Linux
// has a faster place for it.
func tempRoots() (fast, durable string) { return os.TempDir(), os.TempDir() }
