// Package bed is the place of the measurements: one private Postgres with production's settings, a
// Redis if there is one, and databases for the ways.
package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/pgserver"
)

// production is the settings of Postgres. The first three make a committed transaction safe. They
// are PostgreSQL's defaults, and are set because without them no figure would mean anything. Only
// requested checkpoints happen: one in the middle of a round would write whole pages again.
var production = map[string]string{
	"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
	"shared_buffers": "1GB", "max_wal_size": "16GB", "checkpoint_timeout": "1h", "autovacuum": "on",
	"max_connections": "4000", // the sessions of all ways are open at once
}

// stopWait bounds the stop of a server.
const stopWait = 30 * time.Second

// A Bed is a running Postgres and perhaps a Redis.
type Bed struct {
	*pgserver.Server
	// Admin connects to Postgres for work that is not measured.
	Admin *pgxpool.Pool
	// Results are written to Out. Say gets progress.
	Out io.Writer
	Say func(format string, args ...any)

	Redis   *Redis // nil without one
	noRedis error  // the reason for its absence
}

// Options are the options of the servers.
type Options struct {
	// RedisFolder is where Redis may be unpacked. Without it no Redis is started.
	RedisFolder string
	// Fast leaves production's settings out, for tests.
	Fast bool
}

// Run starts a bed for a command, measures on it and ends it.
func Run(cmd *cobra.Command, opts Options, measure func(context.Context, *Bed) error) (err error) {
	ctx := cmd.Context()
	b, err := Start(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Stop(ctx)) }()
	b.Out = cmd.OutOrStdout()
	b.Say = func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), "bench: "+format+"\n", args...) }
	b.Say("%s", b.Source)
	return measure(ctx, b)
}

// Start starts the servers. They are always new: another server's settings, data and neighbours
// would be measured too.
func Start(ctx context.Context, opts Options) (_ *Bed, err error) {
	options := &pgserver.Options{Private: true}
	if !opts.Fast {
		options = &pgserver.Options{Private: true, Durable: true, Settings: production}
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
	return b, requireDisk(ctx, b.DataDir())
}

// requireDisk refuses a folder in memory, where fsync costs nothing.
func requireDisk(ctx context.Context, dir string) error {
	usage, err := disk.UsageWithContext(ctx, dir)
	if err != nil {
		return fmt.Errorf("asking for the file system of the data: %w", err)
	}
	if usage.Fstype == "tmpfs" {
		return fmt.Errorf("the server's data is in memory, below %s: set TMPDIR to a folder on a disk", dir)
	}
	return nil
}

// Checkpoint writes the dirty pages of earlier work, so that they do not burden the next.
func (b *Bed) Checkpoint(ctx context.Context) error {
	if _, err := b.Admin.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("making a checkpoint: %w", err)
	}
	return nil
}

// Stop ends the servers and removes their data, even after ctx has ended.
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
