package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// errAbsent marks a way that this machine does not offer, as against one that is
// there and fails. [Server.Source] leaves such ways out.
var errAbsent = errors.New("not available")

// A way takes a server or starts one. Its error tells what was tried, and fix tells the user what
// would help.
type way struct {
	name  Way
	start func(context.Context, *Options) (*Server, error)
	fix   string
}

// waysTo returns the ways that the options allow.
func waysTo(opts *Options) []way {
	if opts.BinDir != "" {
		dir, err := filepath.Abs(opts.BinDir)
		if err != nil {
			dir = opts.BinDir
		}
		return []way{{WayInstalled, installed([]string{dir}), "name a folder with the programs initdb and postgres of one version that the server's account may read"}}
	}
	ways := []way{
		{WayURL, named(os.Getenv(string(WayURL))), "set DEDUP_DATABASE_URL=postgres://user:password@host:5432/postgres to a server where that user may create databases, for example the one of `docker compose up -d --wait`"},
		{WayDocker, container(dockerHosts()), "start Docker, or set DOCKER_HOST to a daemon that runs, and let it pull " + Image},
		{WayInstalled, installed(binDirs()), "install the PostgreSQL server programs, for example `apt-get install postgresql` or `brew install postgresql@17`, or put the folder with initdb and postgres on PATH"},
		{WayDownload, downloaded(mavenCentral, programsCache()), "allow HTTPS to " + mavenCentral + ", once: the programs are kept in a cache folder"},
	}
	if opts.Private {
		return ways[2:]
	}
	return ways
}

// find tries the ways in their order.
func find(ctx context.Context, ways []way, opts *Options) (*Server, error) {
	var passedOver []string
	var failed []error
	for _, w := range ways {
		server, err := w.start(ctx, opts)
		if err == nil {
			server.Way = w.name
			if len(passedOver) > 0 {
				server.Source += " (" + strings.Join(passedOver, "; ") + ")"
			}
			if opts.Logf != nil {
				opts.Logf("%s", server.Source)
			}
			return server, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("finding a PostgreSQL server by %s: %w", w.name, err)
		}
		if !errors.Is(err, errAbsent) {
			line, _, _ := strings.Cut(err.Error(), "\n")
			passedOver = append(passedOver, fmt.Sprintf("%s failed: %s", w.name, strings.TrimSuffix(line, ":")))
		}
		failed = append(failed, fmt.Errorf("  %s: %w\n    fix: %s", w.name, err, w.fix))
	}
	return nil, fmt.Errorf("no PostgreSQL server found; any one of these would do:\n%w", errors.Join(failed...))
}
