// Package stage sets up what a replay plays on: a server, and for each arm a
// database of its own with the record table, the application's tables and the
// recording's data.
package stage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/pgserver"
)

// stopWait bounds stopping a server and dropping a database.
const stopWait = 20 * time.Second

// ErrURL is wrapped by the errors about a database URL that cannot be read. It
// is no use to try again with the same.
var ErrURL = errors.New("the database URL must begin with postgres://")

// Server is a Postgres server, given or started, or the nodes of a Citus cluster.
type Server struct {
	// Source says on one line which server it is.
	Source string

	url     string           // "" for a cluster
	nodes   []string         // URLs, the coordinator's first; none for a server
	started *pgserver.Server // nil for one that was given
}

// OpenServer takes the server of databaseURL, whose user must be allowed to
// create databases. With "" it finds one or starts one.
func OpenServer(ctx context.Context, databaseURL string) (*Server, error) {
	if databaseURL == "" {
		// With the server's own settings: what is shown must be what holds.
		started, err := pgserver.Start(ctx, &pgserver.Options{Durable: true})
		if err != nil {
			return nil, err
		}
		return &Server{url: started.URL, Source: started.Source, started: started}, nil
	}
	u, err := url.Parse(databaseURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, ErrURL // the parser's own error would show the password
	}
	version, err := serverVersion(ctx, databaseURL)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", u.Redacted(), err)
	}
	return &Server{url: databaseURL, Source: fmt.Sprintf("PostgreSQL %s at %s", version, u.Redacted())}, nil
}

// OpenCluster takes a Citus cluster whose nodes have these URLs, the coordinator's first.
func OpenCluster(ctx context.Context, nodes []string) (*Server, error) {
	version, err := citusdb.Version(ctx, nodes[0])
	if err != nil {
		return nil, fmt.Errorf("connecting to the coordinator: %w", err)
	}
	return &Server{nodes: nodes, Source: fmt.Sprintf("%s, a coordinator and %d workers", version, len(nodes)-1)}, nil
}

// Stop stops the server if OpenServer started it. It goes on after ctx has
// ended.
func (s *Server) Stop(ctx context.Context) error {
	if s.started == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if err := s.started.Stop(ctx); err != nil {
		return fmt.Errorf("stopping the server: %w", err)
	}
	return nil
}

func serverVersion(ctx context.Context, databaseURL string) (version string, err error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT split_part(current_setting('server_version'), ' ', 1)`).Scan(&version)
	return version, err
}
