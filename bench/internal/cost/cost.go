// Package cost counts what one call of a way costs: round trips, WAL, flushes,
// allocations and stored bytes. One client makes the calls, directly and with
// nothing else running, so that these are counts and hardly measurements.
package cost

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// warmCalls is how many calls come before those that are counted, after a
// checkpoint. The first change of a page after a checkpoint writes an image of
// the whole page to the WAL, which is the price of the checkpoint and not of the
// call; these calls pay it. PageImages reports whether they did.
const warmCalls = 1000

// Options says how many calls are counted. Batches count as many operations.
type Options struct {
	Trips int // operations of which round trips are counted, each by itself
	Calls int // operations over which everything else is averaged
}

// Count returns the costs of the site's way, of replays too where it has them.
// Without seeds there is nothing to replay.
func Count(ctx context.Context, b *bed.Bed, s *bed.Site, opts Options) ([]report.Cost, error) {
	kinds := []report.Kind{report.First}
	if s.Way.Replays {
		kinds = append(kinds, report.Replay)
	}
	var costs []report.Cost
	for _, kind := range kinds {
		c := report.Cost{Way: s.Way.Name, Kind: kind}
		if err := countTrips(ctx, s, opts.Trips, &c); err != nil {
			return nil, fmt.Errorf("counting the round trips of %s: %w", s.Way.Name, err)
		}
		if err := countCalls(ctx, b, s, opts.Calls, &c); err != nil {
			return nil, fmt.Errorf("counting the costs of %s: %w", s.Way.Name, err)
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// keys returns the keys of n operations.
func keys(s *bed.Site, kind report.Kind, n int) ([][]string, error) {
	batch := s.Way.Batch
	if kind == report.Replay && len(s.Seeds) < batch {
		return nil, fmt.Errorf("there are %d seeds, and %d are replayed at a time", len(s.Seeds), batch)
	}
	operations := make([][]string, n)
	for i := range operations {
		if kind == report.First {
			operations[i] = s.NewKeys()
			continue
		}
		for at := range batch {
			operations[i] = append(operations[i], s.Seeds[(i*batch+at)%len(s.Seeds)])
		}
	}
	return operations, nil
}

func callAll(ctx context.Context, session way.Session, operations [][]string) error {
	for _, keys := range operations {
		if err := session.Call(ctx, keys); err != nil {
			return err
		}
	}
	return nil
}

// countCalls averages WAL, flushes and allocations over n operations.
func countCalls(ctx context.Context, b *bed.Bed, s *bed.Site, n int, c *report.Cost) error {
	warm := (warmCalls + s.Way.Batch - 1) / s.Way.Batch
	operations, err := keys(s, c.Kind, warm+n)
	if err != nil {
		return err
	}
	return s.Session(ctx, s.Env(1, bed.Line{}), func(session way.Session) error {
		if _, err := b.Admin.Exec(ctx, `CHECKPOINT`); err != nil {
			return fmt.Errorf("making a checkpoint: %w", err)
		}
		if err := callAll(ctx, session, operations[:warm]); err != nil {
			return err
		}
		pools := slices.Concat(session.Pools(), s.Pools, []*pgxpool.Pool{b.Admin})
		before, err := readWAL(ctx, b.Admin, pools)
		if err != nil {
			return err
		}
		var start, end runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&start)
		if err := callAll(ctx, session, operations[warm:]); err != nil {
			return err
		}
		runtime.ReadMemStats(&end)
		after, err := readWAL(ctx, b.Admin, pools)
		if err != nil {
			return err
		}
		calls := float64(n * s.Way.Batch)
		c.WALBytes = float64(after.bytes-before.bytes) / calls
		c.PageImages = float64(after.images-before.images) / calls
		c.Flushes = float64(after.flushes-before.flushes) / calls
		c.Allocs = float64(end.Mallocs-start.Mallocs) / calls
		c.AllocBytes = float64(end.TotalAlloc-start.TotalAlloc) / calls
		return nil
	})
}

// A walState is how far the server's WAL has come.
type walState struct{ bytes, images, flushes int64 }

// readWAL reads it, including what idle backends have not reported yet.
func readWAL(ctx context.Context, admin *pgxpool.Pool, pools []*pgxpool.Pool) (state walState, err error) {
	for _, pool := range pools {
		if err := flushStatistics(ctx, pool); err != nil {
			return state, fmt.Errorf("flushing statistics, which takes PostgreSQL 15: %w", err)
		}
	}
	var version int
	if err := admin.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return state, fmt.Errorf("asking for the server's version: %w", err)
	}
	flushes := `(SELECT wal_sync FROM pg_stat_wal)`
	if version >= 18_00_00 {
		flushes = `(SELECT sum(fsyncs)::bigint FROM pg_stat_io WHERE object = 'wal')`
	}
	err = admin.QueryRow(ctx, `
		SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, (SELECT wal_fpi FROM pg_stat_wal), `+flushes,
	).Scan(&state.bytes, &state.images, &state.flushes)
	if err != nil {
		return state, fmt.Errorf("reading the WAL's statistics, which takes PostgreSQL 15: %w", err)
	}
	return state, nil
}

// flushStatistics makes every idle connection of the pool report its statistics, which
// it does once a second unless it is asked to.
func flushStatistics(ctx context.Context, pool *pgxpool.Pool) error {
	for _, conn := range pool.AcquireAllIdle(ctx) {
		defer conn.Release()
		if _, err := conn.Exec(ctx, `SELECT pg_stat_force_next_flush()`); err != nil {
			return err
		}
	}
	return nil
}
