package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/cost"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// Measure runs the benchmark. What it is doing goes to logf, a line at a time.
func Measure(ctx context.Context, o Options, logf func(format string, args ...any)) (_ *report.Report, err error) {
	ways, err := way.Choose(o.Ways)
	if err != nil {
		return nil, err
	}
	b, err := bed.Start(ctx, bed.Options{RedisFolder: o.RedisFolder})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Stop(ctx)) }()
	logf("bench: %s", b.Source)

	machine, err := b.Machine(ctx)
	if err != nil {
		return nil, err
	}
	r := &report.Report{
		Machine:  machine,
		Settings: report.Settings{Rounds: o.Rounds, Duration: o.Duration, MinOps: o.MinOps},
	}
	var sites []*bed.Site
	defer func() {
		for _, s := range sites {
			s.Close()
		}
	}()
	for _, w := range ways {
		s, err := b.Site(ctx, w)
		if errors.Is(err, bed.ErrNoRedis) {
			r.Skipped = append(r.Skipped, report.Skipped{Way: w.Name, Reason: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		sites = append(sites, s)
		r.Ways = append(r.Ways, report.Way{Name: w.Name, Title: w.Title, Batch: w.Batch})
		logf("bench: what a call costs: %s", w.Title)
		if err := costs(ctx, b, s, o, r); err != nil {
			return nil, err
		}
	}
	for _, delay := range o.Delays {
		if err := measureLine(ctx, b, sites, o, delay, r, logf); err != nil {
			return nil, err
		}
	}
	for _, s := range sites {
		if err := s.Verify(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// costs counts what a call of the way costs, and leaves it seeded.
func costs(ctx context.Context, b *bed.Bed, s *bed.Site, o Options, r *report.Report) error {
	stored, err := cost.Seed(ctx, s, o.seeds)
	if err != nil {
		return err
	}
	counted, err := cost.Count(ctx, b, s, cost.Options{Trips: o.trips, Calls: o.costOps})
	if err != nil {
		return err
	}
	counted[0].StoredBytes = stored
	r.Costs = append(r.Costs, counted...)
	return nil
}

// cellName is how a cell is named in messages.
func cellName(s *bed.Site, kind report.Kind) string { return fmt.Sprintf("%s, %s", s.Way.Name, kind) }
