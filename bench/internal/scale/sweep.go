package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
)

// SweepOptions say how the sweep is measured.
type SweepOptions struct {
	Records     int           // that are due
	Batch       int           // dedup.SweepOptions.BatchSize; 0 is its default
	Rest        float64       // dedup.SweepOptions.Rest; 0 is its default
	Rate        float64       // calls a second of the load
	Clients     int           // that make them
	Quiet       time.Duration // how long the load runs without a sweep, before it and again after it
	Cases       SweepCaseOptions
	Generations GenerationOptions
}

// Sweep is how fast records are swept, what calls notice of it, and what
// room is left behind.
type Sweep struct {
	Machine     report.Machine `json:"machine"`
	Rows        []SweepRow     `json:"rows"`
	Cases       []SweepCaseRow `json:"cases"`
	Generations []Generation   `json:"generations"`
	Vacuum      Vacuum         `json:"vacuum"` // behind the generations
	// Naptime is how often autovacuum looked meanwhile, where it was waited for.
	Naptime time.Duration `json:"autovacuum_naptime_ns"`
	Goals   []Goal        `json:"goals"`
}

// SweepRow is one kind of records that are due.
type SweepRow struct {
	Due     Due   `json:"due"`
	Records int64 `json:"records"`
	// Alone and Loaded are records a second, without and with a load of calls.
	Alone  float64 `json:"alone_per_second"`
	Loaded float64 `json:"loaded_per_second"`
	// Before, Swept and After are the load's calls on the full table, during the
	// sweep and on what it left. Quiet is Before and After together: a table
	// that has just been filled and vacuumed is quicker than it will ever be.
	Before measure.Latency `json:"before"`
	Swept  measure.Latency `json:"swept"`
	After  measure.Latency `json:"after"`
	Quiet  measure.Latency `json:"quiet"`
}

// Due is what a sweep makes of a record.
type Due string

const (
	Forgets Due = "forgotten"  // tombstones whose time is over are deleted
	Expires Due = "tombstones" // results whose time is over are dropped
)

const sweepSchema = "swept"

func sweep(ctx context.Context, s stand, o SweepOptions) (*Sweep, error) {
	machine, err := s.machine(ctx)
	if err != nil {
		return nil, err
	}
	result := &Sweep{Machine: machine}
	pool, err := s.pool(ctx, o.Clients+2)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	for _, due := range []Due{Forgets, Expires} {
		row, err := s.sweepOf(ctx, pool, o, due)
		if err != nil {
			return nil, fmt.Errorf("sweeping %s: %w", due, err)
		}
		result.Rows = append(result.Rows, row)
	}
	if o.Cases.Time > 0 {
		if result.Cases, err = s.sweepCases(ctx, pool, o); err != nil {
			return nil, fmt.Errorf("a sweep that meets %w", err)
		}
	}
	if o.Generations.Count > 0 {
		result.Vacuum, result.Naptime = o.Generations.Vacuum, o.Generations.Naptime
		if result.Generations, err = s.generations(ctx, pool, o); err != nil {
			return nil, fmt.Errorf("generations: %w", err)
		}
	}
	result.Goals = result.goals()
	return result, nil
}

// sweepOf measures the sweep alone and under load, each on a new table.
func (s stand) sweepOf(ctx context.Context, pool *pgxpool.Pool, o SweepOptions, due Due) (SweepRow, error) {
	row := SweepRow{Due: due, Records: int64(o.Records)}

	t, err := s.dueTable(ctx, pool, filling{records: o.Records}, due, dedup.Options{})
	if err != nil {
		return row, err
	}
	s.say("%s records that become %s: sweeping alone", figure.Thousands(row.Records), due)
	if row.Alone, err = t.sweepAll(ctx, o, row); err != nil {
		return row, err
	}

	if t, err = s.dueTable(ctx, pool, filling{records: o.Records}, due, dedup.Options{}); err != nil {
		return row, err
	}
	err = s.sweepUnderLoad(ctx, t, o, &row)
	return row, err
}

// sweepUnderLoad keeps one load up before, during and after the sweep.
func (s stand) sweepUnderLoad(ctx context.Context, t *tool, o SweepOptions, row *SweepRow) error {
	call := t.first(OrderedKeys)
	if _, err := drive(ctx, o.Clients, o.Clients*warmCalls, call); err != nil {
		return err
	}
	s.say("%s records that become %s: load of %g calls a second, before, during and after a sweep", figure.Thousands(row.Records), row.Due, o.Rate)
	var begun, ended time.Time
	start := time.Now()
	all, err := pace{rate: o.Rate, clients: o.Clients}.while(ctx, call, func() (err error) {
		if err := wait(ctx, o.Quiet); err != nil {
			return err
		}
		begun = time.Now()
		if row.Loaded, err = t.sweepAll(ctx, o, *row); err != nil {
			return err
		}
		ended = time.Now()
		return wait(ctx, o.Quiet)
	})
	if err != nil {
		return err
	}
	before, after := between(all, start, begun), between(all, ended, ended.Add(o.Quiet))
	row.Before, row.Swept, row.After = before.Latency(), between(all, begun, ended).Latency(), after.Latency()
	row.Quiet = before.And(after).Latency()
	return nil
}

// dueTable makes a table of records that are all due.
func (s stand) dueTable(ctx context.Context, pool *pgxpool.Pool, f filling, due Due, opts dedup.Options) (*tool, error) {
	if err := s.field(ctx, sweepSchema); err != nil {
		return nil, err
	}
	opts.Schema, opts.Retention = sweepSchema, dedup.TaskRetention()
	t, err := newTool(pool, opts)
	if err != nil {
		return nil, err
	}
	const day = 24 * time.Hour
	f.keys, f.retention = OrderedKeys, dedup.Retention{Result: day, Tombstone: 30 * day}
	switch due {
	case Forgets:
		f.from, f.to, f.swept = 33*day, 32*day, true
	case Expires:
		f.from, f.to = 3*day, 2*day
	}
	return t, f.into(ctx, t, sweepSchema)
}

// sweepAll sweeps once and returns the records a second. All that were due must
// be gone.
func (t *tool) sweepAll(ctx context.Context, o SweepOptions, row SweepRow) (float64, error) {
	start := time.Now()
	swept, err := t.d.Sweep(ctx, o.library())
	elapsed := time.Since(start)
	if err != nil {
		return 0, err
	}
	want := dedup.SweepResult{Batches: swept.Batches, Forgotten: row.Records}
	if row.Due == Expires {
		want.Forgotten, want.Expired = 0, row.Records
	}
	if swept != want {
		return 0, fmt.Errorf("the sweep took %+v, and not %+v", swept, want)
	}
	return float64(row.Records) / elapsed.Seconds(), nil
}

// library is what the library's sweep is given.
func (o SweepOptions) library() *dedup.SweepOptions {
	return &dedup.SweepOptions{BatchSize: o.Batch, Rest: o.Rest}
}

func (r *Sweep) goals() (goals []Goal) {
	for _, row := range r.Rows {
		goals = append(goals,
			atLeast(fmt.Sprintf("records a second, %s, alone", row.Due), 50_000, row.Alone),
			atLeast(fmt.Sprintf("records a second, %s, under load", row.Due), 50_000, row.Loaded),
			atMost(fmt.Sprintf("p99 of calls during the sweep to that before and after, %s", row.Due), 2, ratio(row.Swept.P99, row.Quiet.P99)))
	}
	goals = append(goals, caseGoals(r.Cases)...)
	if n := len(r.Generations); n > 1 {
		first, last := r.Generations[0], r.Generations[n-1]
		goals = append(goals, atMost(fmt.Sprintf("size after generation %d to that after the first", n), 1.5, ratio(last.After.Total, first.After.Total)))
	}
	return goals
}

// verdict is an error where a call was told of a twin that there was not. A sweep that
// takes too little or too much ends the measurement.
func (r *Sweep) verdict() error { return inFlight(r.Cases) }
