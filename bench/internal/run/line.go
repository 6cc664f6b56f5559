package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/delay"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
)

// pings is how often the round trip is measured.
const pings = 201

// measureLine measures everything over one delay.
func measureLine(ctx context.Context, b *bed.Bed, sites []*bed.Site, o Options, by time.Duration, r *report.Report, logf func(string, ...any)) (err error) {
	line, done, err := reach(ctx, b, by)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	roundTrip, err := ping(ctx, bed.Via(b.URL, line.Postgres))
	if err != nil {
		return err
	}
	r.Lines = append(r.Lines, report.Line{Delay: by, RoundTrip: roundTrip})
	for _, clients := range o.Clients {
		logf("bench: %s each way (a round trip takes %s), %d clients, %d rounds", by, roundTrip.Round(time.Microsecond), clients, o.Rounds)
		if err := measureLoad(ctx, b, sites, o, setting{line: line, delay: by, clients: clients}, r); err != nil {
			return err
		}
	}
	return nil
}

// reach starts proxies with the delay in front of the servers. Redis is as remote
// as Postgres. Without a delay there is no proxy.
func reach(ctx context.Context, b *bed.Bed, by time.Duration) (line bed.Line, done func() error, err error) {
	if by == 0 {
		return bed.Line{}, func() error { return nil }, nil
	}
	addr, err := b.Addr()
	if err != nil {
		return bed.Line{}, nil, err
	}
	targets := []string{addr}
	if b.Redis != nil {
		targets = append(targets, b.Redis.Addr)
	}
	p, err := delay.Start(ctx, by, targets...)
	if err != nil {
		return bed.Line{}, nil, err
	}
	line.Postgres = p.Addrs[0]
	if b.Redis != nil {
		line.Redis = p.Addrs[1]
	}
	return line, p.Close, nil
}

// ping returns the median time of SELECT 1.
func ping(ctx context.Context, url string) (_ time.Duration, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("measuring the round trip: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	sample, err := measure.Load{Clients: 1, MinOps: pings}.Run(ctx, func(ctx context.Context, _ int) (int, error) {
		_, err := conn.Exec(ctx, `SELECT 1`)
		return 1, err
	})
	if err != nil {
		return 0, fmt.Errorf("measuring the round trip: %w", err)
	}
	return sample.Latency().P50, nil
}
