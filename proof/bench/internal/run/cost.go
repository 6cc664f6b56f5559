package run

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
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

// count seeds a site with so many calls, and counts what one call of its way costs: bytes, round trips, WAL,
// flushes and allocations, of replays too where the way has them. One client makes the calls, directly and with
// nothing else running, so that these are counts and hardly measurements. The trips of some operations are
// counted each by itself; everything else is averaged over others.
func count(ctx context.Context, b *bed.Bed, s *bed.Site, seeds int, n counts) (costs []Cost, err error) {
	empty, err := stored(ctx, s.Pools)
	if err != nil {
		return nil, err
	}
	if err := s.Seed(ctx, seeds); err != nil {
		return nil, err
	}
	full, err := stored(ctx, s.Pools)
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

// warmTrips is how many operations come before those that are counted: pgx
// prepares a statement in a trip of its own when it meets it first.
const warmTrips = 20

// countTrips counts round trips. For Postgres the fault proxy does:
// it reads the protocol, and so takes for one trip what was sent as one
// pipeline, into however many packets that was cut. Redis counts its commands, which are a trip each.
// The median of single operations is taken, because a way may do something in the background now and
// then.
func (c *Cost) countTrips(ctx context.Context, b *bed.Bed, s *bed.Site, n counts) error {
	env := s.Env(1)
	var proxies []*faultproxy.Proxy
	for i, url := range env.Postgres {
		p, err := faultproxy.New(url)
		if err != nil {
			return err
		}
		defer p.Close()
		proxies = append(proxies, p)
		env.Postgres[i] = p.URL()
	}
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
			for _, p := range proxies {
				p.Reset()
			}
			if err := session.Call(ctx, next(0)); err != nil {
				return err
			}
			made := 0
			for _, p := range proxies {
				made += p.Snapshot().RoundTrips
			}
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
	// Keys are made before they are used, so that what they allocate is not counted.
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
		pools := slices.Concat(session.Pools, s.Pools, []*pgxpool.Pool{b.Admin})
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
