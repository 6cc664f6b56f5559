package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// A call that fails leaves the caller's transaction as it was before: what it
// had written is gone, and the transaction goes on.
func ExampleDoTx_failure() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE notes (text text NOT NULL)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := dedup.DoTx(ctx, d, tx, dedup.Call{Scope: "acme", Tool: "add_note", Key: "k1"},
			func(ctx context.Context, tx pgx.Tx) (any, error) {
				if _, err := tx.Exec(ctx, `INSERT INTO notes VALUES ('half of it')`); err != nil {
					return nil, err
				}
				_, err := tx.Exec(ctx, `INSERT INTO notes VALUES (NULL)`)
				return nil, err
			})
		fmt.Println("failed:", err != nil)

		_, err = tx.Exec(ctx, `INSERT INTO notes VALUES ('written instead')`)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("notes:", exampleCount(pool, "notes"), "records:", exampleCount(pool, "tool_dedup"))

	// Output:
	// failed: true
	// notes: 1 records: 0
}

// A refusal is an answer: commit on it, or it is forgotten.
func ExampleDoTx_refusal() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	for range 2 {
		var refused *dedup.RefusedError
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, d, tx, dedup.Call{Scope: "acme", Tool: "pay", Key: "k1"},
				func(context.Context, pgx.Tx) (any, error) {
					return nil, dedup.Final(errors.New("balance too low"))
				})
			if errors.As(err, &refused) {
				return nil // commit
			}
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(refused.Message, refused.Replayed)
	}

	// Output:
	// balance too low false
	// balance too low true
}
