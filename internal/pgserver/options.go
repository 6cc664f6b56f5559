package pgserver

import (
	"maps"
	"slices"
)

// Options says which server [Start] may take and how a server that it starts is
// set up. The zero value, and nil, mean the defaults below. A server named by
// DEDUP_DATABASE_URL is taken as it is: Durable and Settings do not reach it.
type Options struct {
	// Logf is called once by a Start that succeeds, with the line that is also
	// in [Server.Source]. Default: no log.
	Logf func(format string, args ...any)

	// Durable keeps PostgreSQL's own defaults, and the data on disk, with
	// which a committed transaction survives a crash of the machine. Use it
	// for demonstrations and benchmarks. Default: fsync and full_page_writes
	// are off and the data is in memory, in /dev/shm, if there is room and
	// TMPDIR is not set. That is faster and survives a crash of the server,
	// but not of the machine. synchronous_commit stays on either way.
	Durable bool

	// Settings are further settings of the server, by the names used in
	// postgresql.conf. They win over everything above, and over
	// max_connections, which is 300 where they do not say.
	Settings map[string]string

	// Private skips DEDUP_DATABASE_URL and Docker, for callers that need [Server.Kill] and
	// [Server.Restart]. Default: all ways are tried.
	Private bool

	// BinDir is a folder with the programs initdb and postgres. When it is
	// set no other way is tried, so that a matrix of versions cannot quietly
	// run on another one. Default: all ways are tried.
	BinDir string
}

// settings returns the server's settings as sorted arguments: "-c", "name=value".
func (o *Options) settings() (args []string) {
	merged := map[string]string{"max_connections": "300"}
	if !o.Durable {
		merged["fsync"] = "off"
		merged["full_page_writes"] = "off"
		merged["synchronous_commit"] = "on"
		merged["max_wal_size"] = "256MB" // memory, perhaps
	}
	maps.Copy(merged, o.Settings)
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		args = append(args, "-c", name+"="+merged[name])
	}
	return args
}
