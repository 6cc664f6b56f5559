// Package bed is what the ways are run on: one private Postgres with the settings
// of production, a Redis where there is one, and a database for each way.
package bed

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/bench/internal/redisserver"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/server"
)

// settings are those of the server: no checkpoint falls into a round by itself.
func settings() map[string]string {
	return map[string]string{
		"shared_buffers":     "512MB",
		"max_wal_size":       "8GB",
		"checkpoint_timeout": "1h",
	}
}

// A Bed is the servers.
type Bed struct {
	*server.Server
	Redis   *redisserver.Server // nil where there is none
	NoRedis error               // why there is none
}

// Options says how the servers are started.
type Options struct {
	// RedisFolder is where Redis may have been unpacked.
	RedisFolder string
	// Fast leaves production's settings away, for tests of the ways.
	Fast bool
}

// Start starts the servers.
func Start(ctx context.Context, opts Options) (*Bed, error) {
	o := server.Options{Settings: settings()}
	if opts.Fast {
		o = server.Options{Fast: true}
	}
	postgres, err := server.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	b := &Bed{Server: postgres}
	b.Redis, b.NoRedis = redisserver.Start(ctx, opts.RedisFolder)
	if b.NoRedis != nil && !errors.Is(b.NoRedis, redisserver.ErrAbsent) {
		return nil, errors.Join(b.NoRedis, b.Stop(ctx))
	}
	return b, nil
}

// Machine says what is measured on.
func (b *Bed) Machine(ctx context.Context) (report.Machine, error) {
	m, err := server.Machine(ctx, b.Admin)
	m.Source = b.Source
	if b.Redis != nil {
		m.Redis = b.Redis.Version
	}
	return m, err
}

// Stop ends the servers and removes their data.
func (b *Bed) Stop(ctx context.Context) error {
	var errs []error
	if b.Redis != nil {
		errs = append(errs, b.Redis.Stop())
	}
	return errors.Join(append(errs, b.Server.Stop(ctx))...)
}

// createDatabase returns the URL of a new database.
func (b *Bed) createDatabase(ctx context.Context, name string) (string, error) {
	if _, err := b.Admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("creating database %s: %w", name, err)
	}
	u, err := url.Parse(b.URL)
	if err != nil {
		return "", fmt.Errorf("reading the server's URL: %w", err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Addr is the server's host and port.
func (b *Bed) Addr() (string, error) {
	u, err := url.Parse(b.URL)
	if err != nil {
		return "", fmt.Errorf("reading the server's URL: %w", err)
	}
	return u.Host, nil
}
