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
	"github.com/tooldedup/dedup/bench/internal/delay"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// A runner is a run under way.
type runner struct {
	options
	bed   *bed.Bed
	sites []*bed.Site
	found *Report
	logf  func(format string, args ...any)
}

// measureAll runs the benchmark. What it is doing goes to logf, a line at a time.
func measureAll(ctx context.Context, o options, logf func(format string, args ...any)) (_ *Report, err error) {
	ways, err := way.Choose(o.ways)
	if err != nil {
		return nil, err
	}
	b, err := bed.Start(ctx, bed.Options{
		RedisFolder: o.redisFolder, MaxConnections: connections(ways, slices.Max(o.clients)),
		// No checkpoint falls into a round by itself.
		Settings: map[string]string{"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "1h"},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Stop(ctx)) }()
	logf("%s", b.Source)

	r := &runner{options: o, bed: b, logf: logf, found: &Report{Rounds: o.rounds, Duration: o.duration, To: o.to}}
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
	found := Way{Name: w.Name, Title: w.Title, Batch: w.Batch}
	s, err := r.bed.Site(ctx, w)
	if errors.Is(err, bed.ErrNoRedis) {
		found.Skipped = err.Error()
		r.found.Ways = append(r.found.Ways, found)
		return nil
	}
	if err != nil {
		return err
	}
	r.sites = append(r.sites, s)
	r.found.Ways = append(r.found.Ways, found)
	r.logf("what a call costs: %s", w.Title)
	stored, err := seed(ctx, s, r.seeds)
	if err != nil {
		return err
	}
	costs, err := count(ctx, r.bed, s, r.counts)
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
		var stop func()
		if line, stop, err = r.proxies(ctx, by); err != nil {
			return err
		}
		defer stop()
	}
	roundTrip, err := ping(ctx, bed.Via(r.bed.URL, line.Postgres))
	if err != nil {
		return fmt.Errorf("measuring the round trip: %w", err)
	}
	r.found.Lines = append(r.found.Lines, Line{Delay: by, RoundTrip: roundTrip})
	for _, clients := range r.clients {
		r.logf("%s each way (a round trip takes %s), %d clients, %d rounds", by, roundTrip.Round(time.Microsecond), clients, r.rounds)
		if err := r.measureLoad(ctx, setting{line: line, delay: by, clients: clients}); err != nil {
			return err
		}
	}
	return nil
}

// proxies starts those in front of the servers. Redis is as remote as Postgres.
func (r *runner) proxies(ctx context.Context, by time.Duration) (line bed.Line, stop func(), err error) {
	u, err := url.Parse(r.bed.URL)
	if err != nil {
		return line, nil, err
	}
	targets := []string{u.Host}
	if r.bed.Redis != nil {
		targets = append(targets, r.bed.Redis.Addr)
	}
	addrs, stop, err := delay.Start(ctx, by, targets...)
	if err != nil {
		return line, nil, err
	}
	line.Postgres = addrs[0]
	if r.bed.Redis != nil {
		line.Redis = addrs[1]
	}
	return line, stop, nil
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
