// Package cost counts what one call of a way costs: round trips, WAL, flushes,
// allocations and stored bytes. One client makes the calls, directly and with
// nothing else running, so that these are counts and hardly measurements.
package cost

import (
	"context"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

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
		if err := countTrips(ctx, s, kind, opts.Trips, &c); err != nil {
			return nil, fmt.Errorf("counting the round trips of %s: %w", s.Way.Name, err)
		}
		if err := countCalls(ctx, b, s, kind, opts.Calls, &c); err != nil {
			return nil, fmt.Errorf("counting the costs of %s: %w", s.Way.Name, err)
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// withSession opens the way for one client and closes it after do.
func withSession(ctx context.Context, s *bed.Site, env way.Env, do func(way.Session) error) (err error) {
	session, err := s.Way.Open(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	return do(session)
}

// keys returns the keys of n operations.
func keys(s *bed.Site, kind report.Kind, n int) ([][]string, error) {
	operations := make([][]string, n)
	for i := range operations {
		if kind == report.First {
			operations[i] = s.NewKeys()
			continue
		}
		if len(s.Seeds) < s.Way.Batch {
			return nil, fmt.Errorf("there are %d seeds, and %d are replayed at a time", len(s.Seeds), s.Way.Batch)
		}
		for range s.Way.Batch {
			operations[i] = append(operations[i], s.Seeds[(i*s.Way.Batch+len(operations[i]))%len(s.Seeds)])
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
