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

// countCalls averages WAL, flushes and allocations over n operations.
func countCalls(ctx context.Context, b *bed.Bed, s *bed.Site, kind report.Kind, n int, c *report.Cost) error {
	warm := (warmCalls + s.Way.Batch - 1) / s.Way.Batch
	operations, err := keys(s, kind, warm+n)
	if err != nil {
		return err
	}
	return withSession(ctx, s, s.Env(1, bed.Line{}), func(session way.Session) error {
		if _, err := b.Admin.Exec(ctx, `CHECKPOINT`); err != nil {
			return fmt.Errorf("making a checkpoint: %w", err)
		}
		if err := callAll(ctx, session, operations[:warm]); err != nil {
			return err
		}
		before, err := readWAL(ctx, b, s, session)
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
		after, err := readWAL(ctx, b, s, session)
		if err != nil {
			return err
		}
		calls := float64(n * s.Way.Batch)
		c.WALBytes = float64(after.Bytes-before.Bytes) / calls
		c.PageImages = float64(after.Images-before.Images) / calls
		c.Flushes = float64(after.Flushes-before.Flushes) / calls
		c.Allocs = float64(end.Mallocs-start.Mallocs) / calls
		c.AllocBytes = float64(end.TotalAlloc-start.TotalAlloc) / calls
		return nil
	})
}

// A walState is how far the server's WAL has come.
type walState struct{ Bytes, Images, Flushes int64 }

// readWAL reads it, including what idle backends have not told yet: they do so
// once a second unless they are asked to.
func readWAL(ctx context.Context, b *bed.Bed, s *bed.Site, session way.Session) (state walState, err error) {
	for _, pool := range slices.Concat(session.Pools(), s.Pools, []*pgxpool.Pool{b.Admin}) {
		if err := flushStatistics(ctx, pool); err != nil {
			return state, err
		}
	}
	var version int
	if err := b.Admin.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return state, fmt.Errorf("asking for the server's version: %w", err)
	}
	flushes := `(SELECT wal_sync FROM pg_stat_wal)`
	if version >= 18_00_00 {
		flushes = `(SELECT sum(fsyncs)::bigint FROM pg_stat_io WHERE object = 'wal')`
	}
	err = b.Admin.QueryRow(ctx, `
		SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, (SELECT wal_fpi FROM pg_stat_wal), `+flushes,
	).Scan(&state.Bytes, &state.Images, &state.Flushes)
	if err != nil {
		return state, fmt.Errorf("reading the WAL's statistics, which takes PostgreSQL 15: %w", err)
	}
	return state, nil
}

// flushStatistics makes every idle connection of the pool tell its statistics.
func flushStatistics(ctx context.Context, pool *pgxpool.Pool) error {
	for _, conn := range pool.AcquireAllIdle(ctx) {
		defer conn.Release()
		if _, err := conn.Exec(ctx, `SELECT pg_stat_force_next_flush()`); err != nil {
			return fmt.Errorf("flushing statistics, which takes PostgreSQL 15: %w", err)
		}
	}
	return nil
}
