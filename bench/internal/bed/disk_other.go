//go:build !linux

package bed

// requireDisk knows file systems in memory on Linux only. Where the data lies is
// part of every report.
func requireDisk(string) error { return nil }
