package orm_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// An effect that writes through sqlx.
func Example_sqlx() {
	s, done := exampleService()
	defer done()
	ctx := context.Background()

	for range 2 {
		result, err := dedup.Do(ctx, s.d, call("call the guest"), sqldedup.Effect(func(ctx context.Context, db *sql.DB) (note Note, err error) {
			err = sqlx.NewDb(db, "pgx").GetContext(ctx, &note, `INSERT INTO notes (text) VALUES ($1) RETURNING *`, "call the guest")
			return note, err
		}))
		must(err)
		fmt.Println(result.Value.Text, "replayed:", result.Replayed)
	}
	// Output:
	// call the guest replayed: false
	// call the guest replayed: true
}

// A call in a transaction of sqlx.
func Example_sqlxTransaction() {
	s, done := exampleService()
	defer done()
	ctx := context.Background()

	tx, err := sqlx.NewDb(s.db, "pgx").BeginTxx(context.WithoutCancel(ctx), nil)
	must(err)
	defer func() { _ = tx.Rollback() }()
	result, err := sqldedup.DoTx(ctx, s.d, tx, call("invoice 17"), func(ctx context.Context) (note Note, err error) {
		err = tx.GetContext(ctx, &note, `INSERT INTO notes (text) VALUES ($1) RETURNING *`, "invoice 17")
		return note, err
	})
	must(err)
	must(tx.Commit())
	fmt.Println(result.Value.Text, "replayed:", result.Replayed)
	// Output: invoice 17 replayed: false
}
