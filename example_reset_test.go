package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// An effect that commits by itself leaves a write without its record. The
// identity is blocked, so that no retry repeats the write, until an operator has
// repaired it and frees the identity with a reason.
func ExampleDeduper_Reset() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE charges (cents int)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	call := dedup.Call{Scope: "acme", Tool: "charge", Key: "order-117"}

	commits := func(ctx context.Context, tx pgx.Tx) (string, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO charges VALUES (9900)`); err != nil {
			return "", err
		}
		_, err := tx.Conn().Exec(ctx, "COMMIT") // never do this
		return "charged", err
	}
	for range 2 {
		_, err = dedup.Do(ctx, d, call, commits)
		fmt.Println("broken:", errors.Is(err, dedup.ErrBroken), "charges:", exampleCount(pool, "charges"))
	}

	if _, err := pool.Exec(ctx, `DELETE FROM charges`); err != nil {
		log.Fatal(err)
	}
	freed, err := d.Reset(ctx, "acme", "charge", "order-117", "charge of broken call deleted")
	fmt.Println("freed:", freed, err)

	result, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, `INSERT INTO charges VALUES (9900)`)
		return "charged", err
	})
	fmt.Println(result.Value, err, "charges:", exampleCount(pool, "charges"))

	// Output:
	// broken: true charges: 1
	// broken: true charges: 1
	// freed: true <nil>
	// charged <nil> charges: 1
}
