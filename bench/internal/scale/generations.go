package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
)

// generations puts one generation after the other through a table beside as many
// records that stay: filled with results that have expired, swept to tombstones,
// and swept again when those may be forgotten. After each it waits until autovacuum,
// with the settings of the table, has come by. A generation of real records lasts
// for hours, so that it would have come.
func generations(ctx context.Context, b *bed.Bed, o SweepOptions) (err error) {
	for _, statement := range []string{
		fmt.Sprintf("ALTER SYSTEM SET autovacuum_naptime = '%ds'", int(o.Naptime.Seconds())), "SELECT pg_reload_conf()",
	} {
		if _, err := b.Admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("hastening autovacuum: %w", err)
		}
	}
	site, err := filled(ctx, b, fresh(OrderedKeys, o.GenerationRecords))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Drop(ctx)) }()
	fmt.Fprintf(b.Out, "MB of table and indexes as generations of records come and go, beside %s records that stay.\n\n",
		measure.Text(o.GenerationRecords))
	t := measure.NewTable(b.Out, "generation", "full", "swept", "vacuumed", "to the first, ≤ 1.5")
	var first float64
	for n := range o.Generations {
		megabytes, err := generation(ctx, site, o)
		if err != nil {
			return fmt.Errorf("generation %d: %w", n+1, err)
		}
		if n == 0 {
			first = megabytes[2]
		}
		t.Row(n+1, megabytes[0], megabytes[1], megabytes[2], megabytes[2]/first)
		b.Say("generation %d: %s records came and went", n+1, measure.Text(o.GenerationRecords))
	}
	t.Flush()
	return nil
}

// generation returns what the table takes when a generation of records has come, when
// it has been swept away, and when its room has been given back.
func generation(ctx context.Context, site *bed.Site, o SweepOptions) (megabytes [3]float64, err error) {
	start := time.Now()
	d, err := dedup.New(site.Pools[0], nil)
	if err != nil {
		return megabytes, err
	}
	sweep := func() error {
		_, err := d.Sweep(ctx, &dedup.SweepOptions{Rest: o.Rest})
		return err
	}
	// Spread over a second: those of one moment would all be one batch.
	coming := filling{
		keys: OrderedKeys, records: o.GenerationRecords, from: 2 * time.Second, to: time.Second,
		result: time.Second, tombstone: o.Hold,
	}
	for _, do := range []func() error{
		func() error { return coming.into(ctx, site) },
		func() (err error) { megabytes[0], err = taken(ctx, site, 2*o.GenerationRecords); return err },
		sweep, // of results
		func() error { return measure.Wait(ctx, o.Hold) },
		sweep, // of tombstones
		func() (err error) { megabytes[1], err = taken(ctx, site, o.GenerationRecords); return err },
		func() error { return awaitAutovacuum(ctx, site, start) },
		func() (err error) { megabytes[2], err = taken(ctx, site, o.GenerationRecords); return err },
	} {
		if err := do(); err != nil {
			return megabytes, err
		}
	}
	return megabytes, nil
}

// taken is what the table takes on disk. It must have so many records.
func taken(ctx context.Context, site *bed.Site, records int) (megabytes float64, err error) {
	sizes, err := sizesOf(ctx, site)
	if err == nil && sizes.Records != int64(records) {
		err = fmt.Errorf("the table has %d records, and not %d", sizes.Records, records)
	}
	return float64(sizes.Total) / 1e6, err
}

const (
	autovacuumWait = 5 * time.Minute // far longer than it takes
	autovacuumLook = time.Second
)

// awaitAutovacuum returns when the table has been vacuumed since the given time. The
// server has this machine's clock.
func awaitAutovacuum(ctx context.Context, site *bed.Site, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, autovacuumWait)
	defer cancel()
	for {
		// It may come in the middle of a sweep, and has to come again for the
		// rest if that is more than the table's settings let pass.
		var done bool
		err := site.Pools[0].QueryRow(ctx, `
			SELECT coalesce(s.last_autovacuum > $1::timestamptz, false)
			       AND s.n_dead_tup <= current_setting('autovacuum_vacuum_threshold')::float8
			           + greatest(c.reltuples, 0) * coalesce(o.option_value, current_setting('autovacuum_vacuum_scale_factor'))::float8
			  FROM pg_stat_all_tables s
			  JOIN pg_class c ON c.oid = s.relid
			  LEFT JOIN pg_options_to_table(c.reloptions) o ON o.option_name = 'autovacuum_vacuum_scale_factor'
			 WHERE s.relid = 'tool_dedup'::regclass`, since).Scan(&done)
		if err != nil || done {
			return err
		}
		if err := measure.Wait(ctx, autovacuumLook); err != nil {
			return fmt.Errorf("autovacuum did not come by within %s: %w", autovacuumWait, err)
		}
	}
}
