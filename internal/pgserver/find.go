package pgserver

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// A Way is one of the ways to a server, in words that fit into a message.
type Way string

// The ways, in the order in which [Start] tries them.
const (
	WayURL       Way = "DEDUP_DATABASE_URL"
	WayDocker    Way = "Docker"
	WayInstalled Way = "installed programs"
	WayDownload  Way = "downloaded programs"
)

// lookups is where the ways look. A nil or empty field means the real place.
type lookups struct {
	getenv       func(string) string // the environment
	dockerHosts  func() []string     // addresses of Docker daemons, in order
	dockerWait   time.Duration       // how long each daemon may take to answer
	binDirs      func() []string     // folders that may hold server programs
	repository   string              // Maven repository of the archives
	downloadWait time.Duration       // how long a download may take
	cacheDir     func() (string, error)
}

// withDefaults fills in the real places.
func (l lookups) withDefaults() lookups {
	if l.getenv == nil {
		l.getenv = os.Getenv
	}
	if l.dockerHosts == nil {
		l.dockerHosts = dockerHosts
	}
	if l.dockerWait == 0 {
		l.dockerWait = 2 * time.Second
	}
	if l.binDirs == nil {
		l.binDirs = binDirs
	}
	if l.repository == "" {
		l.repository = mavenCentral
	}
	if l.downloadWait == 0 {
		l.downloadWait = 5 * time.Minute
	}
	if l.cacheDir == nil {
		l.cacheDir = programsCache
	}
	return l
}

// find tries the ways in their order. A way returns what it tried in words, for
// the message, beside its server or its error.
func find(ctx context.Context, opts *Options) (*Server, error) {
	type way struct {
		name Way
		try  func(context.Context, *Options) (*Server, string, error)
		fix  string
	}
	ways := []way{
		{WayURL, fromURL, "set DEDUP_DATABASE_URL=postgres://user:password@host:5432/postgres to a server where that user may create databases, for example the one of `docker compose up -d --wait`"},
		{WayDocker, fromDocker, "start Docker, or set DOCKER_HOST to a daemon that runs, and let it pull " + Image},
		{WayInstalled, fromInstalled, "install the PostgreSQL server programs, for example `apt-get install postgresql` or `brew install postgresql@17`, or put the folder with initdb and postgres on PATH"},
		{WayDownload, fromDownload, "allow HTTPS to " + opts.look.repository + ", once: the programs are kept in a cache folder"},
	}
	switch {
	case opts.BinDir != "":
		ways = []way{{WayInstalled, fromBinDir, "name a folder with the programs initdb and postgres of one version that the server's account may read"}}
	case opts.Private:
		ways = ways[2:]
	}

	var failed []Attempt
	for _, w := range ways {
		server, tried, err := w.try(ctx, opts)
		if err == nil {
			server.way = w.name
			server.Source += passedOver(failed)
			return server, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("finding a PostgreSQL server by %s: %w", w.name, err)
		}
		failed = append(failed, Attempt{Way: w.name, Tried: tried, Err: err, Fix: w.fix})
	}
	return nil, &NotFoundError{Attempts: failed}
}

// passedOver says on one line which ways were there and failed.
func passedOver(failed []Attempt) string {
	var reasons []string
	for _, a := range failed {
		if !a.absent() {
			reasons = append(reasons, fmt.Sprintf("%s failed: %s", a.Way, firstLine(a.Err.Error())))
		}
	}
	if len(reasons) == 0 {
		return ""
	}
	return " (" + strings.Join(reasons, "; ") + ")"
}
