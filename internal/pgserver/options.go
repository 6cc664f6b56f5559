package pgserver

import (
	"fmt"
	"maps"
	"slices"
)

// DefaultMaxConnections is the number of connections a started server accepts
// where [Options.MaxConnections] is 0.
const DefaultMaxConnections = 300

// Options says which server [Start] may take and how a server that it starts is
// set up. The zero value, and nil, mean the defaults below. A server named by
// DEDUP_DATABASE_URL is taken as it is: Durable, MaxConnections and Settings do
// not reach it.
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

	// MaxConnections is the server's max_connections.
	// Default: [DefaultMaxConnections].
	MaxConnections int

	// Settings are further settings of the server, by the names used in
	// postgresql.conf. They win over everything above.
	Settings map[string]string

	// Private skips DEDUP_DATABASE_URL and Docker, for callers who need
	// [Server.Kill] and [Server.Restart]. Default: all ways are tried.
	Private bool

	// BinDir is a folder with the programs initdb and postgres. When it is
	// set no other way is tried, so that a matrix of versions cannot quietly
	// run on another one. Default: all ways are tried.
	BinDir string

	look lookups // where the ways look; tests replace it
}

// settings returns the server's settings as sorted "name=value" pairs.
func (o *Options) settings() []string {
	merged := map[string]string{"max_connections": fmt.Sprint(DefaultMaxConnections)}
	if o.MaxConnections > 0 {
		merged["max_connections"] = fmt.Sprint(o.MaxConnections)
	}
	if !o.Durable {
		merged["fsync"] = "off"
		merged["full_page_writes"] = "off"
		merged["synchronous_commit"] = "on"
		merged["max_wal_size"] = "256MB" // memory, perhaps
	}
	maps.Copy(merged, o.Settings)

	pairs := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		pairs = append(pairs, name+"="+merged[name])
	}
	return pairs
}
