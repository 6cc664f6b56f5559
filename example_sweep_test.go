package dedup_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// archive keeps what a sweep lets go of, in the sweep's own transaction.
func archive(ctx context.Context, tx pgx.Tx, batch []dedup.SweptRecord) error {
	for _, record := range batch {
		if record.Result == nil {
			continue // it was archived when its result expired
		}
		_, err := tx.Exec(ctx, `INSERT INTO answered (scope, tool, key, result, at) VALUES ($1, $2, $3, $4, $5)`,
			record.Scope, record.Tool, record.Key, string(record.Result), record.CreatedAt)
		if err != nil {
			return err
		}
	}
	return nil
}

// Sweep drops results that have expired, which leaves tombstones, and deletes
// tombstones whose time is over. Before that, the hook can keep them elsewhere.
func ExampleDeduper_Sweep() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE answered (scope text, tool text, key text, result text, at timestamptz)`)
	defer done()
	d, err := dedup.New(pool, &dedup.Options{
		Retention: dedup.Retention{Result: 24 * time.Hour, Tombstone: 7 * 24 * time.Hour},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"k1", "k2", "k3"} {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "pay", Key: key},
			func(ctx context.Context, tx pgx.Tx) (string, error) { return "paid " + key, nil })
		if err != nil {
			log.Fatal(err)
		}
	}

	sweep := func(when string) {
		swept, err := d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 2, Archive: archive})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %d expired, %d forgotten, %d batches; %d records, %d archived\n", when,
			swept.Expired, swept.Forgotten, swept.Batches, exampleCount(pool, "tool_dedup"), exampleCount(pool, "answered"))
	}
	sweep("at once")
	exampleTimePasses(pool, "2 days")
	sweep("after 2 days")
	exampleTimePasses(pool, "7 days")
	sweep("after 9 days")

	// Output:
	// at once: 0 expired, 0 forgotten, 0 batches; 3 records, 0 archived
	// after 2 days: 3 expired, 0 forgotten, 2 batches; 3 records, 3 archived
	// after 9 days: 0 expired, 3 forgotten, 2 batches; 0 records, 3 archived
}
