package dedup_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Lookup tells what became of a call without calling again.
func ExampleDeduper_Lookup() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	look := func(when string) {
		status, err := d.Lookup(ctx, "acme", "export", "k1")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s, result %q\n", when, status.State, status.Result)
	}

	look("before")
	_, err = dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "export", Key: "k1"},
		func(ctx context.Context, tx pgx.Tx) (map[string]int, error) {
			look("during")
			return map[string]int{"rows": 3}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	look("after")
	exampleTimePasses(pool, "2 days")
	look("two days later")

	// Output:
	// before: not found, result ""
	// during: in flight, result ""
	// after: done, result "{\"rows\":3}"
	// two days later: expired, result ""
}
