package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// checkout makes two calls in one transaction of its own: both are committed, or
// neither. Every transaction makes them in the same order, so that two of them
// cannot deadlock.
func checkout(ctx context.Context, pool *pgxpool.Pool, d *dedup.Deduper, order string) error {
	step := func(tx pgx.Tx, tool, sql string) error {
		key, err := dedup.KeyFromIntent("order", order, tool)
		if err != nil {
			return err
		}
		result, err := dedup.DoTx(ctx, d, tx, dedup.Call{Scope: "acme", Tool: tool, Key: key},
			func(ctx context.Context, tx pgx.Tx) (string, error) {
				_, err := tx.Exec(ctx, sql, order)
				return tool + " of " + order, err
			})
		if err == nil {
			fmt.Printf("%s, replayed=%t\n", result.Value, result.Replayed)
		}
		return err
	}
	var err error
	for range 10 {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := step(tx, "reserve_stock", `INSERT INTO reservations VALUES ($1)`); err != nil {
				return err
			}
			return step(tx, "send_parcel", `INSERT INTO parcels VALUES ($1)`)
		})
		if !errors.Is(err, dedup.ErrRestartTx) {
			break
		}
	}
	return err
}

// Two calls share one transaction of the caller. The second checkout is a
// retry, and replays both.
func ExampleDoTx() {
	ctx := context.Background()
	pool, done := exampleDatabase(
		`CREATE TABLE reservations (order_id text)`,
		`CREATE TABLE parcels (order_id text)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	for range 2 {
		if err := checkout(ctx, pool, d, "A-117"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("reservations:", exampleCount(pool, "reservations"), "parcels:", exampleCount(pool, "parcels"))

	// Output:
	// reserve_stock of A-117, replayed=false
	// send_parcel of A-117, replayed=false
	// reserve_stock of A-117, replayed=true
	// send_parcel of A-117, replayed=true
	// reservations: 1 parcels: 1
}
