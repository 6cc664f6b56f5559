// Package bed is what the ways are run on: one private Postgres with the settings
// of production, a Redis where there is one, and databases for the ways.
package bed

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

// A Bed is a Postgres that runs, and a Redis where one is wanted.
type Bed struct {
	*pgserver.Server
	// Admin leads to Postgres, for what is not measured.
	Admin *pgxpool.Pool

	Redis   *Redis // nil where there is none
	noRedis error  // why there is none
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
func Start(ctx context.Context, opts Options) (_ *Bed, err error) {
	options := &pgserver.Options{
		Private: true, Durable: !opts.Fast, MaxConnections: opts.MaxConnections, Settings: map[string]string{},
	}
	maps.Copy(options.Settings, opts.Settings)
	for _, name := range production {
		if !opts.Fast {
			options.Settings[name] = "on"
		}
	}
	b := &Bed{}
	if b.Server, err = pgserver.Start(ctx, options); err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Stop(ctx))
		}
	}()
	if b.Admin, err = pgxpool.New(ctx, b.URL); err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	if opts.RedisFolder != "" {
		b.Redis, b.noRedis = startRedis(ctx, opts.RedisFolder)
		if b.noRedis != nil && !errors.Is(b.noRedis, ErrNoRedis) {
			return nil, b.noRedis
		}
	}
	if opts.Fast {
		return b, nil
	}
	return b, b.requireProduction(ctx)
}

func (b *Bed) requireProduction(ctx context.Context) error {
	for _, name := range production {
		var value string
		if err := b.Admin.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return fmt.Errorf("asking for the setting %s: %w", name, err)
		}
		if value != "on" {
			return fmt.Errorf("the server runs with %s = %s; the benchmark is made with %s on", name, value, strings.Join(production, ", "))
		}
	}
	return requireDisk(b.DataDir())
}

// Stop ends the servers and removes their data, also when ctx has ended.
func (b *Bed) Stop(ctx context.Context) (err error) {
	if b.Admin != nil {
		b.Admin.Close()
	}
	if b.Redis != nil {
		err = b.Redis.stop()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	return errors.Join(err, b.Server.Stop(ctx))
}
