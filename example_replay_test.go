package dedup_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Ten workers of two processes are handed the same call at the same moment. One
// runs the effect; the others wait for it, without holding a connection, and
// get its result.
func Example_replay() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE payments (id int GENERATED ALWAYS AS IDENTITY, cents int)`)
	defer done()

	// Two Dedupers know nothing of each other, like two processes.
	var processes [2]*dedup.Deduper
	for i := range processes {
		d, err := dedup.New(pool, nil)
		if err != nil {
			log.Fatal(err)
		}
		processes[i] = d
	}

	pay := dedup.Call{Scope: "acme", Tool: "pay", Key: "invoice-2026-117", Args: map[string]int{"cents": 4200}}
	var ids [10]int
	var executed [10]bool
	var workers sync.WaitGroup
	for i := range ids {
		workers.Go(func() {
			result, err := dedup.Do(ctx, processes[i%2], pay, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
				err = tx.QueryRow(ctx, `INSERT INTO payments (cents) VALUES (4200) RETURNING id`).Scan(&id)
				return id, err
			})
			if err != nil {
				log.Fatal(err)
			}
			ids[i], executed[i] = result.Value, !result.Replayed
		})
	}
	workers.Wait()

	runs := 0
	for _, ran := range executed {
		if ran {
			runs++
		}
	}
	fmt.Println("results:", ids)
	fmt.Println("executed:", runs)
	fmt.Println("payments:", exampleCount(pool, "payments"))

	// Output:
	// results: [1 1 1 1 1 1 1 1 1 1]
	// executed: 1
	// payments: 1
}
