// Package bed is what the ways are run on: one private Postgres with the settings
// of production, a Redis where there is one, and a database for each way.
package bed

import (
	"context"
	"errors"

	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/server"
)

// A Bed is the servers.
type Bed struct {
	*server.Server
	Redis   *server.Redis // nil where there is none
	noRedis error         // why there is none
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
	o := server.Options{Fast: opts.Fast}
	if !opts.Fast {
		// No checkpoint falls into a round by itself.
		o.Settings = map[string]string{"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "1h"}
	}
	postgres, err := server.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	b := &Bed{Server: postgres}
	b.Redis, b.noRedis = server.StartRedis(ctx, opts.RedisFolder)
	if b.noRedis != nil && !errors.Is(b.noRedis, server.ErrNoRedis) {
		return nil, errors.Join(b.noRedis, postgres.Stop(ctx))
	}
	return b, nil
}

// Machine says what is measured on.
func (b *Bed) Machine(ctx context.Context) (report.Machine, error) {
	m, err := b.Server.Machine(ctx)
	if b.Redis != nil {
		m.Redis = b.Redis.Version
	}
	return m, err
}

// Stop ends the servers and removes their data.
func (b *Bed) Stop(ctx context.Context) error {
	err := b.Server.Stop(ctx)
	if b.Redis != nil {
		err = errors.Join(err, b.Redis.Stop())
	}
	return err
}
