package run

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// counts are the numbers of operations for the costs.
type counts struct {
	trips int // operations whose round trips are counted
	calls int // operations of all other counts
	// warm operations come before the calls, after a checkpoint. The first change of a page after a
	// checkpoint writes the whole page to the WAL. That is the price of the checkpoint and not of
	// the call, so the warm operations pay it. PageImages reports whether they did.
	warm int
}

// count seeds a site and counts the cost of one call of its way: bytes, round trips, WAL, flushes
// and allocations, and the same for a replay if the way has replays. One client makes the calls,
// directly and alone, so the figures are counts and not measurements. Round trips are counted for
// single operations. Everything else is averaged over others.
func count(ctx context.Context, b *bed.Bed, s *bed.Site, seeds int, n counts) (costs []Cost, err error) {
	empty, err := stored(ctx, s.Pool)
	if err != nil {
		return nil, err
	}
	if err := s.Seed(ctx, seeds); err != nil {
		return nil, err
	}
	full, err := stored(ctx, s.Pool)
	if err != nil {
		return nil, err
	}
	first := Cost{Way: s.Way.Name, Kind: First, StoredBytes: float64(full-empty) / float64(len(s.Seeds))}
	costs = []Cost{first}
	if s.Way.Replays {
		costs = append(costs, Cost{Way: s.Way.Name, Kind: Replay})
	}
	for i := range costs {
		if err := errors.Join(costs[i].countTrips(ctx, b, s, n), costs[i].countCalls(ctx, b, s, n)); err != nil {
			return nil, fmt.Errorf("counting the costs of %s: %w", s.Way.Name, err)
		}
	}
	return costs, nil
}

// warmTrips is the number of uncounted operations at first: pgx prepares a new statement in a
// separate trip.
const warmTrips = 20

// countTrips counts round trips. The fault proxy counts those of Postgres: it reads the protocol,
// so a pipeline is one trip in any number of packets. Redis counts its commands, one trip each. The
// median of single operations counts, because a way may now and then work in the background.
func (c *Cost) countTrips(ctx context.Context, b *bed.Bed, s *bed.Site, n counts) error {
	env := s.Env(1)
	proxy, err := faultproxy.New(env.Postgres)
	if err != nil {
		return err
	}
	defer proxy.Close()
	env.Postgres = proxy.URL()
	var redis *bed.Redis
	if s.Way.NeedsRedis {
		redis = b.Redis
	}
	next := keys(s, c.Kind, 1)
	return s.Session(ctx, env, func(session *way.Session) error {
		for range warmTrips {
			if err := session.Call(ctx, next(0)); err != nil {
				return err
			}
		}
		var trips, commands []float64
		for range n.trips {
			before, err := redis.Commands(ctx)
			if err != nil {
				return err
			}
			proxy.Reset()
			if err := session.Call(ctx, next(0)); err != nil {
				return err
			}
			made := proxy.Snapshot().RoundTrips
			after, err := redis.Commands(ctx)
			if err != nil {
				return err
			}
			trips, commands = append(trips, float64(made)), append(commands, float64(after-before))
		}
		c.RoundTrips = measure.Median(trips) / float64(s.Way.Batch)
		c.RedisRoundTrips = measure.Median(commands) / float64(s.Way.Batch)
		return nil
	})
}

// countCalls averages WAL, flushes and allocations.
func (c *Cost) countCalls(ctx context.Context, b *bed.Bed, s *bed.Site, n counts) error {
	next := keys(s, c.Kind, 1)
	// The keys are made first, so that their allocations are not counted.
	operations := make([][]string, (n.warm+s.Way.Batch-1)/s.Way.Batch+n.calls)
	for i := range operations {
		operations[i] = next(0)
	}
	warm, counted := operations[:len(operations)-n.calls], operations[len(operations)-n.calls:]
	return s.Session(ctx, s.Env(1), func(session *way.Session) error {
		callAll := func(operations [][]string) error {
			for _, keys := range operations {
				if err := session.Call(ctx, keys); err != nil {
					return err
				}
			}
			return nil
		}
		if err := errors.Join(b.Checkpoint(ctx), callAll(warm)); err != nil {
			return err
		}
		pools := []*pgxpool.Pool{session.Pool, s.Pool, b.Admin}
		before, err := readWAL(ctx, b.Admin, pools)
		if err != nil {
			return err
		}
		var start, end runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&start)
		if err := callAll(counted); err != nil {
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
