package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
)

// GenerationOptions say how whole lives of records are put through one table.
type GenerationOptions struct {
	Count   int
	Records int           // of a generation, and of those that stay throughout
	Hold    time.Duration // how long they are tombstones
	Vacuum  Vacuum
	// Naptime is how often autovacuum looks meanwhile, where it is waited for.
	Naptime time.Duration
}

// Vacuum is who cleans up behind the sweeps.
type Vacuum string

const (
	// VacuumAuto waits after each generation until autovacuum, with the
	// settings of the table, has come by. A generation of real records lasts
	// for hours, so that it would have come.
	VacuumAuto Vacuum = "auto"
	// VacuumEach runs VACUUM after each generation, which is quicker.
	VacuumEach Vacuum = "each"
	// VacuumNone waits for nobody. Autovacuum may come by all the same.
	VacuumNone Vacuum = "none"
)

// Generation is what a table takes when a generation of records has come, when
// it has been swept away, and when its room has been given back.
type Generation struct {
	Full  Sizes         `json:"full"`
	Swept Sizes         `json:"swept"`
	After Sizes         `json:"after_vacuum"`
	Took  time.Duration `json:"took_ns"`
}

// generations puts one generation after the other through a table beside as many
// records that stay: filled with results that have expired, swept to tombstones,
// and swept again when those may be forgotten.
func (s stand) generations(ctx context.Context, pool *pgxpool.Pool, options SweepOptions) (all []Generation, err error) {
	o := options.Generations
	if o.Vacuum == VacuumAuto {
		if err := hastenAutovacuum(ctx, pool, o.Naptime); err != nil {
			return nil, err
		}
	}
	if err := s.field(ctx, sweepSchema); err != nil {
		return nil, err
	}
	const day = 24 * time.Hour
	t, err := newTool(pool, dedup.Options{Schema: sweepSchema, Retention: dedup.TaskRetention()})
	if err != nil {
		return nil, err
	}
	staying := filling{keys: OrderedKeys, records: o.Records, from: time.Hour, to: time.Second,
		retention: dedup.Retention{Result: day, Tombstone: 30 * day}}
	if err := staying.into(ctx, t, sweepSchema); err != nil {
		return nil, err
	}
	for len(all) < o.Count {
		g, err := t.generation(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("generation %d: %w", len(all)+1, err)
		}
		all = append(all, g)
		s.say("generation %d: %s records came and went in %s", len(all), figure.Thousands(int64(o.Records)), g.Took.Round(time.Millisecond))
	}
	return all, nil
}

func (t *tool) generation(ctx context.Context, options SweepOptions) (g Generation, err error) {
	o := options.Generations
	start := time.Now()
	var since time.Time
	if err := t.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&since); err != nil {
		return g, err
	}
	// Spread over a second: those of one moment would all be one batch.
	coming := filling{keys: OrderedKeys, records: o.Records, from: 2 * time.Second, to: time.Second,
		retention: dedup.Retention{Result: time.Second, Tombstone: o.Hold}}
	if err := coming.copyInto(ctx, t, sweepSchema); err != nil {
		return g, err
	}
	if g.Full, err = measureSizes(ctx, t.pool, sweepSchema); err != nil {
		return g, err
	}
	forgotten, err := t.sweepUntilForgotten(ctx, options)
	if err != nil {
		return g, err
	}
	if forgotten != int64(o.Records) {
		return g, fmt.Errorf("%d records were forgotten, and not %d", forgotten, o.Records)
	}
	if g.Swept, err = measureSizes(ctx, t.pool, sweepSchema); err != nil {
		return g, err
	}
	if err := vacuumed(ctx, t.pool, sweepSchema, o.Vacuum, since); err != nil {
		return g, err
	}
	g.After, err = measureSizes(ctx, t.pool, sweepSchema)
	g.Took = time.Since(start)
	return g, err
}

// sweepUntilForgotten sweeps twice: the results, and once their time is over the
// tombstones.
func (t *tool) sweepUntilForgotten(ctx context.Context, o SweepOptions) (forgotten int64, err error) {
	table := pgx.Identifier{sweepSchema, "tool_dedup"}.Sanitize()
	for range 2 {
		swept, err := t.d.Sweep(ctx, o.library())
		if err != nil {
			return 0, err
		}
		forgotten += swept.Forgotten
		_, err = t.pool.Exec(ctx, `
			SELECT pg_sleep(coalesce(extract(epoch FROM max(forget_at) - clock_timestamp()), 0)::float8)
			  FROM `+table+`
			 WHERE result IS NULL`)
		if err != nil {
			return 0, fmt.Errorf("waiting until tombstones may be forgotten: %w", err)
		}
	}
	return forgotten, nil
}

const (
	autovacuumWait = 5 * time.Minute // far longer than it takes
	autovacuumLook = time.Second
	settingLook    = 10 * time.Millisecond
)

// hastenAutovacuum has it look as often as that, so that generations need not
// last for minutes, and returns once the server does.
func hastenAutovacuum(ctx context.Context, pool *pgxpool.Pool, naptime time.Duration) error {
	want := int(naptime.Seconds())
	for _, statement := range []string{fmt.Sprintf("ALTER SYSTEM SET autovacuum_naptime = '%ds'", want), "SELECT pg_reload_conf()"} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("hastening autovacuum: %w", err)
		}
	}
	for {
		var is int
		err := pool.QueryRow(ctx, "SELECT setting::int FROM pg_settings WHERE name = 'autovacuum_naptime'").Scan(&is)
		if err == nil && is != want {
			err = wait(ctx, settingLook)
		}
		if err != nil {
			return fmt.Errorf("hastening autovacuum: %w", err)
		}
		if is == want {
			return nil
		}
	}
}

// vacuumed returns when the schema's table has been vacuumed since the given
// time.
func vacuumed(ctx context.Context, pool *pgxpool.Pool, schema string, by Vacuum, since time.Time) error {
	table := pgx.Identifier{schema, "tool_dedup"}.Sanitize()
	switch by {
	case VacuumNone:
		return nil
	case VacuumEach:
		_, err := pool.Exec(ctx, "VACUUM (ANALYZE) "+table)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, autovacuumWait)
	defer cancel()
	for {
		// It may come in the middle of a sweep, and has to come again for the
		// rest if that is more than the table's settings let pass.
		var done bool
		err := pool.QueryRow(ctx, `
			SELECT coalesce(s.last_autovacuum > $2::timestamptz, false)
			       AND s.n_dead_tup <= current_setting('autovacuum_vacuum_threshold')::float8
			           + greatest(c.reltuples, 0) * coalesce(o.option_value, current_setting('autovacuum_vacuum_scale_factor'))::float8
			  FROM pg_stat_all_tables s
			  JOIN pg_class c ON c.oid = s.relid
			  LEFT JOIN pg_options_to_table(c.reloptions) o ON o.option_name = 'autovacuum_vacuum_scale_factor'
			 WHERE s.relid = $1::regclass`, table, since).Scan(&done)
		if err != nil || done {
			return err
		}
		if err := wait(ctx, autovacuumLook); err != nil {
			return fmt.Errorf("autovacuum did not come by within %s: %w", autovacuumWait, err)
		}
	}
}
