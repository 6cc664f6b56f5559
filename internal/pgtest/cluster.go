package pgtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/internal/pgserver"
)

// ErrNoMain is returned by [Create], and fails [New] and [NewEmpty], where
// nothing would stop the server: outside [Main].
var ErrNoMain = errors.New("pgtest: no Main: add `func TestMain(m *testing.M) { pgtest.Main(m) }` to the package's tests")

const (
	// startWait bounds the start of the server, a container's image included.
	startWait = 10 * time.Minute

	// sharedServer is the environment variable with the URL of a server that the tests of several
	// processes share. The program in pgserver/share sets it.
	sharedServer = "DEDUP_SHARED_SERVER"

	// adminConns is the number of connections that create and drop databases.
	adminConns = 4
)

// A cluster is the server that the tests of a process share, and the template on
// it. The server is started when it is first used.
type cluster struct {
	options *pgserver.Options
	shared  string // URL of a server that runs already, "" to start one

	mu       sync.Mutex       // guards the fields below
	opened   bool             // someone will call close
	server   *pgserver.Server // nil where the tests of several processes share one
	url      string           // of the server's database postgres
	admin    *pgxpool.Pool    // to the same
	strategy string           // how CREATE DATABASE copies the template, see clone
	err      error            // of the start, for every test that comes later

	template template
	copying  sync.Mutex // one CREATE or DROP DATABASE at a time, see clone
}

func newCluster(options *pgserver.Options) *cluster {
	return &cluster{options: options}
}

// open allows the use of the cluster, up to close.
func (c *cluster) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = true
}

// close stops the server if it was started.
func (c *cluster) close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = false
	if c.admin != nil {
		c.admin.Close()
	}
	if c.server == nil {
		return nil
	}
	if err := c.server.Stop(ctx); err != nil {
		return fmt.Errorf("stopping the server: %w", err)
	}
	return nil
}

// connect returns the connections that create databases, and starts the server
// if need be. The server belongs to all tests, so no test's context ends it.
func (c *cluster) connect() (*pgxpool.Pool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.opened {
		return nil, ErrNoMain
	}
	if c.admin != nil || c.err != nil {
		return c.admin, c.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	c.admin, c.err = c.start(ctx)
	return c.admin, c.err
}

func (c *cluster) start(ctx context.Context) (*pgxpool.Pool, error) {
	if c.url = c.shared; c.url == "" {
		server, err := pgserver.Start(ctx, c.options)
		if err != nil {
			return nil, err
		}
		c.server, c.url = server, server.URL
	}
	config, err := pgxpool.ParseConfig(c.url)
	if err != nil {
		return nil, fmt.Errorf("reading the server's URL: %w", err)
	}
	config.MaxConns = adminConns
	admin, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := admin.QueryRow(ctx, chooseStrategy).Scan(&c.strategy); err != nil {
		admin.Close()
		return nil, fmt.Errorf("asking for the server's settings: %w", err)
	}
	return admin, nil
}

// outlives reports whether the server outlives this process.
func (c *cluster) outlives() bool {
	return c.server != nil && c.server.Way == pgserver.WayURL
}

// ignoredGoroutines are those that testcontainers-go keeps to the end of the
// process: its connection to the container that cleans up after us, and idle
// connections to the daemon.
func (c *cluster) ignoredGoroutines() []goleak.Option {
	if c.server == nil || c.server.Way != pgserver.WayDocker {
		return nil
	}
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	}
}
