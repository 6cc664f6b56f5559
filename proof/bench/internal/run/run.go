package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/delay"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// A runner is a running measurement.
type runner struct {
	options
	bed   *bed.Bed
	sites []*bed.Site
	found *Report
}

// measured runs the benchmark.
func measured(ctx context.Context, b *bed.Bed, o options) (_ *Report, err error) {
	ways, err := way.Choose(o.ways)
	if err != nil {
		return nil, err
	}
	r := &runner{options: o, bed: b, found: &Report{Rounds: o.rounds, Duration: o.duration, To: o.to}}
	if r.found.Machine, err = b.Machine(ctx); err != nil {
		return nil, err
	}
	defer func() {
		for _, s := range r.sites {
			s.Close()
		}
	}()
	for _, w := range ways {
		if err := r.prepare(ctx, w); err != nil {
			return nil, err
		}
	}
	for _, delay := range o.delays {
		if err := r.measureOver(ctx, delay); err != nil {
			return nil, err
		}
	}
	for _, s := range r.sites {
		if err := s.Verify(ctx); err != nil {
			return nil, err
		}
	}
	return r.found, nil
}

// prepare seeds a site for the way and counts the cost of a call.
func (r *runner) prepare(ctx context.Context, w way.Way) error {
	s, err := r.bed.Site(ctx, w)
	if errors.Is(err, bed.ErrNoRedis) {
		r.found.Skipped = append(r.found.Skipped, fmt.Sprintf("%s: %v", w.Name, err))
		return nil
	}
	if err != nil {
		return err
	}
	r.sites = append(r.sites, s)
	r.bed.Say("what a call costs: %s", w.Title)
	costs, err := count(ctx, r.bed, s, r.seeds, r.counts)
	r.found.Costs = append(r.found.Costs, costs...)
	return err
}

// measureOver measures everything over one delay. Redis is as remote as Postgres.
func (r *runner) measureOver(ctx context.Context, by time.Duration) error {
	line := r.bed.Line()
	for _, addr := range []*string{&line.Postgres, &line.Redis} {
		if by == 0 || *addr == "" {
			continue
		}
		proxy, stop, err := delay.Start(ctx, by, *addr)
		if err != nil {
			return err
		}
		defer stop()
		*addr = proxy
	}
	roundTrip, err := ping(ctx, bed.Via(r.bed.URL, line.Postgres))
	if err != nil {
		return fmt.Errorf("measuring the round trip: %w", err)
	}
	r.found.Lines = append(r.found.Lines, Line{Delay: by, RoundTrip: roundTrip})
	for _, clients := range r.clients {
		load := Load{Delay: by, Clients: clients}
		if r.check && !bounded(load) {
			continue
		}
		r.bed.Say("%s each way (a round trip takes %s), %d clients, %d rounds", by, roundTrip.Round(time.Microsecond), clients, r.rounds)
		if err := r.measureLoad(ctx, load, line); err != nil {
			return err
		}
	}
	return nil
}

// ping returns the median time of SELECT 1.
func ping(ctx context.Context, url string) (_ time.Duration, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	sample, err := measure.Load{Clients: 1, MinOps: 201}.Run(ctx, func(ctx context.Context, _ int) (int, error) {
		_, err := conn.Exec(ctx, `SELECT 1`)
		return 1, err
	})
	return sample.Latency().P50, err
}
