package dedup_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// ClaimFirst is for engines and routers without advisory locks. The answers are
// the same; each row is written twice.
func ExampleOrder() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE payments (cents int)`)
	defer done()
	d, err := dedup.New(pool, &dedup.Options{Order: dedup.ClaimFirst})
	if err != nil {
		log.Fatal(err)
	}

	for range 2 {
		result, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "pay", Key: "k1"},
			func(ctx context.Context, tx pgx.Tx) (string, error) {
				_, err := tx.Exec(ctx, `INSERT INTO payments VALUES (4200)`)
				return "paid", err
			})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Value, "replayed:", result.Replayed)
	}
	fmt.Println("payments:", exampleCount(pool, "payments"))

	// Output:
	// paid replayed: false
	// paid replayed: true
	// payments: 1
}
