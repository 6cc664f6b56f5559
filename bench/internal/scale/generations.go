package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
)

// generation is what a table takes when a generation of records has come, when
// it has been swept away, and when its room has been given back.
type generation struct {
	full, swept, after Sizes
	took               time.Duration
}

// generations puts one generation after the other through a table beside as many
// records that stay: filled with results that have expired, swept to tombstones,
// and swept again when those may be forgotten. After each it waits until autovacuum,
// with the settings of the table, has come by. A generation of real records lasts
// for hours, so that it would have come.
func (s stand) generations(ctx context.Context, pool *pgxpool.Pool, o SweepOptions) (all []generation, err error) {
	for _, statement := range []string{
		fmt.Sprintf("ALTER SYSTEM SET autovacuum_naptime = '%ds'", int(o.Naptime.Seconds())), "SELECT pg_reload_conf()",
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("hastening autovacuum: %w", err)
		}
	}
	t, err := newField(ctx, pool, dedup.Options{Schema: sweepSchema, Retention: dedup.TaskRetention()})
	if err != nil {
		return nil, err
	}
	staying := filling{keys: OrderedKeys, records: o.GenerationRecords, from: time.Hour, to: time.Second,
		retention: dedup.Retention{Result: day, Tombstone: 30 * day}}
	if err := staying.into(ctx, t); err != nil {
		return nil, err
	}
	for len(all) < o.Generations {
		g, err := t.nextGeneration(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("generation %d: %w", len(all)+1, err)
		}
		all = append(all, g)
		s.say("generation %d: %s records came and went in %s", len(all), figure.Thousands(o.GenerationRecords), g.took.Round(time.Millisecond))
	}
	return all, nil
}

func writeGenerations(w io.Writer, all []generation) {
	fmt.Fprintf(w, "Table and indexes as generations of records come and go, beside %s records that stay.\n\n", figure.Thousands(all[0].after.Records))
	t := figure.NewTable("generation", "full", "swept", "vacuumed", "heap", "primary key", "due index", "to the first, ≤ 1.5x", "took")
	for i, g := range all {
		t.Row(i+1, megabytes(g.full.Total), megabytes(g.swept.Total), megabytes(g.after.Total), megabytes(g.after.Heap),
			megabytes(g.after.PrimaryKey), megabytes(g.after.DueIndex), times(ratio(g.after.Total, all[0].after.Total)),
			g.took.Round(time.Second/10).String())
	}
	t.Write(w)
}

func (t *tool) nextGeneration(ctx context.Context, o SweepOptions) (g generation, err error) {
	start := time.Now()
	// Spread over a second: those of one moment would all be one batch.
	coming := filling{keys: OrderedKeys, records: o.GenerationRecords, from: 2 * time.Second, to: time.Second,
		retention: dedup.Retention{Result: time.Second, Tombstone: o.Hold}}
	if err := coming.copyInto(ctx, t); err != nil {
		return g, err
	}
	if g.full, err = t.sizes(ctx); err != nil {
		return g, err
	}
	forgotten := int64(0)
	for _, pause := range []time.Duration{o.Hold, 0} { // the results are swept, and then the tombstones
		swept, err := t.d.Sweep(ctx, &dedup.SweepOptions{Rest: o.Rest})
		if err = errors.Join(err, wait(ctx, pause)); err != nil {
			return g, err
		}
		forgotten += swept.Forgotten
	}
	if forgotten != int64(o.GenerationRecords) {
		return g, fmt.Errorf("%d records were forgotten, and not %d", forgotten, o.GenerationRecords)
	}
	if g.swept, err = t.sizes(ctx); err != nil {
		return g, err
	}
	if err := t.awaitAutovacuum(ctx, start); err != nil {
		return g, err
	}
	g.after, err = t.sizes(ctx)
	g.took = time.Since(start)
	return g, err
}

const (
	autovacuumWait = 5 * time.Minute // far longer than it takes
	autovacuumLook = time.Second
)

// awaitAutovacuum returns when the table has been vacuumed since the given time. The
// server has this machine's clock.
func (t *tool) awaitAutovacuum(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, autovacuumWait)
	defer cancel()
	for {
		// It may come in the middle of a sweep, and has to come again for the
		// rest if that is more than the table's settings let pass.
		var done bool
		err := t.pool.QueryRow(ctx, `
			SELECT coalesce(s.last_autovacuum > $2::timestamptz, false)
			       AND s.n_dead_tup <= current_setting('autovacuum_vacuum_threshold')::float8
			           + greatest(c.reltuples, 0) * coalesce(o.option_value, current_setting('autovacuum_vacuum_scale_factor'))::float8
			  FROM pg_stat_all_tables s
			  JOIN pg_class c ON c.oid = s.relid
			  LEFT JOIN pg_options_to_table(c.reloptions) o ON o.option_name = 'autovacuum_vacuum_scale_factor'
			 WHERE s.relid = $1::regclass`, t.records, since).Scan(&done)
		if err != nil || done {
			return err
		}
		if err := wait(ctx, autovacuumLook); err != nil {
			return fmt.Errorf("autovacuum did not come by within %s: %w", autovacuumWait, err)
		}
	}
}
