package run

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/cost"
	"github.com/tooldedup/dedup/bench/internal/delay"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// A runner is a run under way.
type runner struct {
	Options
	bed   *bed.Bed
	sites []*bed.Site
	found *report.Report
	logf  func(format string, args ...any)
}

// measureAll runs the benchmark. What it is doing goes to logf, a line at a time.
func measureAll(ctx context.Context, o Options, logf func(format string, args ...any)) (_ *report.Report, err error) {
	ways, err := way.Choose(o.Ways)
	if err != nil {
		return nil, err
	}
	b, err := bed.Start(ctx, bed.Options{RedisFolder: o.RedisFolder, MaxConnections: connections(ways, slices.Max(o.Clients))})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Stop(ctx)) }()
	logf("bench: %s", b.Source)

	r := &runner{Options: o, bed: b, logf: logf, found: &report.Report{
		Settings: report.Settings{Rounds: o.Rounds, Duration: o.Duration, MinOps: o.minOps, To: o.To},
	}}
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
	for _, delay := range o.Delays {
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

// connections is how many the server must take: the sessions of all ways are open side by
// side, and each site has a small pool beside. DBOS opens a few that are in no pool.
func connections(ways []way.Way, clients int) int {
	all := 50
	for _, w := range ways {
		databases := 1
		if w.NeedsSecondDatabase {
			databases = 2
		}
		all += databases * (clients + 2 + max(4, runtime.NumCPU()) + 4)
	}
	return all
}

// prepare seeds a site for the way, and counts what a call of it costs.
func (r *runner) prepare(ctx context.Context, w way.Way) error {
	s, err := r.bed.Site(ctx, w)
	if errors.Is(err, bed.ErrNoRedis) {
		r.found.Skipped = append(r.found.Skipped, report.Skipped{Way: w.Name, Reason: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	r.sites = append(r.sites, s)
	r.found.Ways = append(r.found.Ways, report.Way{Name: w.Name, Title: w.Title, Batch: w.Batch})
	r.logf("bench: what a call costs: %s", w.Title)
	stored, err := cost.Seed(ctx, s, r.seeds)
	if err != nil {
		return err
	}
	costs, err := cost.Count(ctx, r.bed, s, cost.Options{Trips: r.trips, Calls: r.costOps})
	if err != nil {
		return err
	}
	costs[0].StoredBytes = stored
	r.found.Costs = append(r.found.Costs, costs...)
	return nil
}

// measureOver measures everything over one delay.
func (r *runner) measureOver(ctx context.Context, by time.Duration) (err error) {
	var line bed.Line
	if by > 0 {
		proxies, failed := r.proxies(ctx, by)
		if failed != nil {
			return failed
		}
		defer proxies.Close()
		line.Postgres = proxies.Addrs[0]
		if r.bed.Redis != nil {
			line.Redis = proxies.Addrs[1]
		}
	}
	roundTrip, err := ping(ctx, bed.Via(r.bed.URL, line.Postgres))
	if err != nil {
		return fmt.Errorf("measuring the round trip: %w", err)
	}
	r.found.Lines = append(r.found.Lines, report.Line{Delay: by, RoundTrip: roundTrip})
	for _, clients := range r.Clients {
		r.logf("bench: %s each way (a round trip takes %s), %d clients, %d rounds", by, roundTrip.Round(time.Microsecond), clients, r.Rounds)
		if err := r.measureLoad(ctx, setting{line: line, delay: by, clients: clients}); err != nil {
			return err
		}
	}
	return nil
}

// proxies starts those in front of the servers. Redis is as remote as Postgres.
func (r *runner) proxies(ctx context.Context, by time.Duration) (*delay.Process, error) {
	u, err := url.Parse(r.bed.URL)
	if err != nil {
		return nil, err
	}
	targets := []string{u.Host}
	if r.bed.Redis != nil {
		targets = append(targets, r.bed.Redis.Addr)
	}
	return delay.Start(ctx, by, targets...)
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
