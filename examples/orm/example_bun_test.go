package orm_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// An effect that writes through bun.
func Example_bun() {
	s, done := exampleService()
	defer done()
	ctx := context.Background()

	for range 2 {
		result, err := dedup.Do(ctx, s.d, call("call the guest"), sqldedup.Effect(func(ctx context.Context, db *sql.DB) (Note, error) {
			note := Note{Text: "call the guest"}
			_, err := bun.NewDB(db, pgdialect.New()).NewInsert().Model(&note).Exec(ctx)
			return note, err
		}))
		must(err)
		fmt.Println(result.Value.Text, "replayed:", result.Replayed)
	}
	// Output:
	// call the guest replayed: false
	// call the guest replayed: true
}

// A call in a transaction of bun.
func Example_bunTransaction() {
	s, done := exampleService()
	defer done()
	ctx := context.Background()
	db := bun.NewDB(s.db, pgdialect.New())

	err := db.RunInTx(context.WithoutCancel(ctx), nil, func(_ context.Context, tx bun.Tx) error {
		result, err := sqldedup.DoTx(ctx, s.d, tx.Tx, call("invoice 17"), func(ctx context.Context) (Note, error) {
			note := Note{Text: "invoice 17"}
			_, err := tx.NewInsert().Model(&note).Exec(ctx)
			return note, err
		})
		fmt.Println(result.Value.Text, "replayed:", result.Replayed)
		return err
	})
	must(err)
	// Output: invoice 17 replayed: false
}
