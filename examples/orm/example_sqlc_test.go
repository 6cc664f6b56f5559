package orm_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/examples/orm/db"
	"github.com/tooldedup/dedup/sqldedup"
)

// An effect that writes through sqlc's functions for database/sql.
func Example_sqlc() {
	s, done := exampleService()
	defer done()
	ctx := context.Background()

	for range 2 {
		result, err := dedup.Do(ctx, s.d, call("call the guest"), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (db.Note, error) {
			return db.New(tx).AddNote(ctx, "call the guest")
		}))
		must(err)
		fmt.Println(result.Value.Text, "replayed:", result.Replayed)
	}
	// Output:
	// call the guest replayed: false
	// call the guest replayed: true
}
