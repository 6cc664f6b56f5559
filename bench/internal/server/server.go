// Package server starts the servers that are measured on, which are the benchmark's
// own: a Postgres with the settings of production and its data on a disk, and a Redis.
package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/pgserver"
)

// production are the settings that a committed transaction's safety hangs on.
// They are PostgreSQL's defaults, and said all the same: without them nothing
// that is measured would mean anything.
var production = []string{"fsync", "full_page_writes", "synchronous_commit"}

// stopWait is how long a server may take to end.
const stopWait = 30 * time.Second

// A Server is a Postgres that runs, and a Redis where one is wanted.
type Server struct {
	*pgserver.Server
	// Admin leads to Postgres, for what is not measured.
	Admin *pgxpool.Pool

	Redis   *Redis // nil where there is none
	NoRedis error  // why there is none
}

// Options says how the servers are started.
type Options struct {
	// Settings are settings of Postgres beside production's.
	Settings map[string]string
	// MaxConnections is how many connections Postgres takes; 0 means pgserver's default.
	MaxConnections int
	// RedisFolder is where Redis may have been unpacked. Without it none is started.
	RedisFolder string
	// Fast leaves production's settings away, for tests of what runs on it.
	Fast bool
}

// Start starts the servers. They are always our own: another one's settings, data and
// neighbours would be measured too.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	options := &pgserver.Options{Private: true, Durable: !opts.Fast, MaxConnections: opts.MaxConnections, Settings: map[string]string{}}
	maps.Copy(options.Settings, opts.Settings)
	for _, name := range production {
		if !opts.Fast {
			options.Settings[name] = "on"
		}
	}
	s := &Server{}
	if s.Server, err = pgserver.Start(ctx, options); err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(ctx))
		}
	}()
	if s.Admin, err = pgxpool.New(ctx, s.URL); err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	if opts.RedisFolder != "" {
		s.Redis, s.NoRedis = startRedis(ctx, opts.RedisFolder)
		if s.NoRedis != nil && !errors.Is(s.NoRedis, ErrNoRedis) {
			return nil, s.NoRedis
		}
	}
	if opts.Fast {
		return s, nil
	}
	return s, s.requireProduction(ctx)
}

func (s *Server) requireProduction(ctx context.Context) error {
	for _, name := range production {
		var value string
		if err := s.Admin.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return fmt.Errorf("asking for the setting %s: %w", name, err)
		}
		if value != "on" {
			return fmt.Errorf("the server runs with %s = %s; the benchmark is made with %s on", name, value, strings.Join(production, ", "))
		}
	}
	return requireDisk(s.DataDir())
}

// Stop ends the servers and removes their data, also when ctx has ended.
func (s *Server) Stop(ctx context.Context) (err error) {
	if s.Admin != nil {
		s.Admin.Close()
	}
	if s.Redis != nil {
		err = s.Redis.stop()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	return errors.Join(err, s.Server.Stop(ctx))
}

// Pool connects all connections of a pool at once, so that none is opened while
// something is measured.
func Pool(ctx context.Context, url string, conns int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URL: %w", err)
	}
	config.MaxConns, config.MinConns, config.MaxConnIdleTime = int32(conns), int32(conns), time.Hour
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	open := make([]*pgxpool.Conn, conns)
	for i := range open {
		if open[i], err = pool.Acquire(ctx); err != nil {
			err = fmt.Errorf("connecting %d times: %w", conns, err)
			break
		}
	}
	for _, conn := range open {
		if conn != nil {
			conn.Release()
		}
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}
