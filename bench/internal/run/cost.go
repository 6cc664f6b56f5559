package run

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// counts say over how many operations costs are counted.
type counts struct {
	trips int // of which the round trips are counted
	calls int // of which everything else is
	// warm come before those, after a checkpoint. The first change of a page after a checkpoint writes an image of
	// the whole page to the WAL, which is the price of the checkpoint and not of the
	// call; these pay it. PageImages reports whether they did.
	warm int
}

// count counts what one call of a way costs: round trips, WAL, flushes and
// allocations, of replays too where the way has them. One client makes the calls, directly and with
// nothing else running, so that these are counts and hardly measurements. The trips of some operations are
// counted each by itself; everything else is averaged over others.
func count(ctx context.Context, b *bed.Bed, s *bed.Site, n counts) ([]Cost, error) {
	kinds := []Kind{First}
	if s.Way.Replays {
		kinds = append(kinds, Replay)
	}
	var costs []Cost
	for _, kind := range kinds {
		c := Cost{Way: s.Way.Name, Kind: kind}
		if err := countTrips(ctx, s, n.trips, &c); err != nil {
			return nil, fmt.Errorf("counting the round trips of %s: %w", s.Way.Name, err)
		}
		if err := countCalls(ctx, b, s, n, &c); err != nil {
			return nil, fmt.Errorf("counting the costs of %s: %w", s.Way.Name, err)
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// keys returns the keys of n operations.
func keys(s *bed.Site, kind Kind, n int) ([][]string, error) {
	batch := s.Way.Batch
	if kind == Replay && len(s.Seeds) < batch {
		return nil, fmt.Errorf("there are %d seeds, and %d are replayed at a time", len(s.Seeds), batch)
	}
	operations := make([][]string, n)
	for i := range operations {
		if kind == First {
			operations[i] = s.NewKeys()
			continue
		}
		for at := range batch {
			operations[i] = append(operations[i], s.Seeds[(i*batch+at)%len(s.Seeds)])
		}
	}
	return operations, nil
}

func callAll(ctx context.Context, session *way.Session, operations [][]string) error {
	for _, keys := range operations {
		if err := session.Call(ctx, keys); err != nil {
			return err
		}
	}
	return nil
}

// countCalls averages WAL, flushes and allocations.
func countCalls(ctx context.Context, b *bed.Bed, s *bed.Site, n counts, c *Cost) error {
	warm := (n.warm + s.Way.Batch - 1) / s.Way.Batch
	operations, err := keys(s, c.Kind, warm+n.calls)
	if err != nil {
		return err
	}
	return s.Session(ctx, s.Env(1, bed.Line{}), func(session *way.Session) error {
		if _, err := b.Admin.Exec(ctx, `CHECKPOINT`); err != nil {
			return fmt.Errorf("making a checkpoint: %w", err)
		}
		if err := callAll(ctx, session, operations[:warm]); err != nil {
			return err
		}
		pools := slices.Concat(session.Pools, s.Pools, []*pgxpool.Pool{b.Admin})
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
		calls := float64(n.calls * s.Way.Batch)
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
