package scale

import (
	"context"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
)

// SoakOptions say what is kept up, and for how long.
type SoakOptions struct {
	Duration  time.Duration
	Rate      float64       // calls a second
	Clients   int           // that make them
	Replays   float64       // the share of calls that repeat an earlier one
	Retention time.Duration // of results, and again of tombstones
	Sweep     time.Duration // the Sweeper's interval
	Every     time.Duration // between two lines
}

// Soak is a fixed load over time.
type Soak struct {
	Machine report.Machine `json:"machine"`
	Lines   []SoakLine     `json:"lines"`
	Tally   SoakTally      `json:"tally"`
	Verdict SoakVerdict    `json:"verdict"`
}

// SoakLine is what was seen since the line before.
type SoakLine struct {
	At     time.Duration   `json:"at_ns"`
	Sizes  Sizes           `json:"sizes"`
	Live   int64           `json:"live_tuples"`
	Dead   int64           `json:"dead_tuples"`
	Calls  measure.Latency `json:"calls"`
	Errors int             `json:"errors"`
}

const soakSchema = "soak"

// soak writes its lines to out as it goes: it may run for hours.
func soak(ctx context.Context, s stand, o SoakOptions, out io.Writer) (*Soak, error) {
	machine, err := s.machine(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.field(ctx, soakSchema); err != nil {
		return nil, err
	}
	pool, err := s.pool(ctx, o.Clients+2) // the Sweeper, and the looks
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var sweeps sweepLog
	t, err := newTool(pool, dedup.Options{
		Schema: soakSchema, Tracer: &sweeps,
		Retention: dedup.Retention{Result: o.Retention, Tombstone: o.Retention},
	})
	if err != nil {
		return nil, err
	}
	sweeper, err := dedup.NewSweeper(t.d, &dedup.SweeperOptions{Interval: o.Sweep})
	if err != nil {
		return nil, err
	}

	result := &Soak{Machine: machine}
	load := newSoakLoad(t, o)
	err = load.besides(ctx, o, sweeper, func(heard *ear) error {
		return result.watch(ctx, pool, o, heard, out)
	})
	if err != nil {
		return nil, err
	}
	if result.Tally, err = load.settle(ctx, pool); err != nil {
		return nil, err
	}
	sweeps.addTo(&result.Tally)
	result.Verdict = judgeSoak(result.Lines, result.Tally, o)
	return result, nil
}

// watch adds a line at every interval until the time is over.
func (r *Soak) watch(ctx context.Context, pool *pgxpool.Pool, o SoakOptions, heard *ear, out io.Writer) error {
	writeSoakHeading(out)
	every := time.NewTicker(o.Every)
	defer every.Stop()
	start, last := time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
		line, err := look(ctx, pool)
		if err != nil {
			return err
		}
		all := heard.take()
		for _, o := range all {
			if o.err != nil {
				line.Errors++
			}
		}
		now := time.Now()
		line.At, line.Calls = now.Sub(start), sampleOf(all, now.Sub(last)).Latency()
		last = now
		r.Lines = append(r.Lines, line)
		line.writeLine(out)
		if line.At >= o.Duration {
			return nil
		}
	}
}

// look sees the table.
func look(ctx context.Context, pool *pgxpool.Pool) (line SoakLine, err error) {
	if line.Sizes, err = measureSizes(ctx, pool, soakSchema); err != nil {
		return line, err
	}
	err = pool.QueryRow(ctx, "SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = $1::regclass",
		pgx.Identifier{soakSchema, "tool_dedup"}.Sanitize()).Scan(&line.Live, &line.Dead)
	return line, err
}
