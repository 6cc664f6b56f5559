package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// A call is replayed, then refused as expired, then forgotten.
func ExampleRetention() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, &dedup.Options{
		Retention: dedup.InteractiveRetention(), // for calls that name none
	})
	if err != nil {
		log.Fatal(err)
	}

	days := func(from, to time.Time) float64 { return to.Sub(from).Round(time.Minute).Hours() / 24 }
	for _, kept := range []struct {
		name string
		dedup.Retention
	}{
		{"interactive", dedup.Retention{}},
		{"task", dedup.TaskRetention()},
		{"batch", dedup.BatchRetention()},
		{"financial", dedup.FinancialRetention()},
		{"own", dedup.Retention{Result: 36 * time.Hour, Tombstone: 7 * 24 * time.Hour}},
		{"no tombstone", dedup.Retention{Result: 12 * time.Hour, Tombstone: -1}},
	} {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "pay", Key: kept.name, Retention: kept.Retention},
			func(ctx context.Context, tx pgx.Tx) (string, error) { return "paid", nil })
		if err != nil {
			log.Fatal(err)
		}
		status, err := d.Lookup(ctx, "acme", "pay", kept.name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: replayed for %.4g days, refused for %.4g more\n",
			kept.name, days(status.CreatedAt, status.ExpiresAt), days(status.ExpiresAt, status.ForgetAt))
	}

	exampleTimePasses(pool, "2 days")
	_, err = dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "pay", Key: "task"},
		func(ctx context.Context, tx pgx.Tx) (string, error) { return "paid twice", nil })
	fmt.Println("task, two days later, expired:", errors.Is(err, dedup.ErrExpired))

	// Output:
	// interactive: replayed for 0.04167 days, refused for 30 more
	// task: replayed for 1 days, refused for 30 more
	// batch: replayed for 7 days, refused for 30 more
	// financial: replayed for 30 days, refused for 30 more
	// own: replayed for 1.5 days, refused for 7 more
	// no tombstone: replayed for 0.5 days, refused for 0 more
	// task, two days later, expired: true
}
