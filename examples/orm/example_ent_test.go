package orm_test

import (
	"context"
	"database/sql"
	"fmt"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/examples/orm/ent"
	"github.com/tooldedup/dedup/sqldedup"
)

// An effect that writes through a generated client of ent.
func Example_ent() {
	s, done := exampleService()
	defer done()
	ctx := context.Background()

	for range 2 {
		result, err := dedup.Do(ctx, s.d, call("call the guest"), sqldedup.Effect(func(ctx context.Context, db *sql.DB) (*ent.Note, error) {
			client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, db)))
			return client.Note.Create().SetText("call the guest").Save(ctx)
		}))
		must(err)
		fmt.Println(result.Value.Text, "replayed:", result.Replayed)
	}
	// Output:
	// call the guest replayed: false
	// call the guest replayed: true
}

// A call in a transaction of ent. The client is generated with --feature sql/execquery.
func Example_entTransaction() {
	s, done := exampleService()
	defer done()
	ctx := context.Background()
	client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, s.db)))

	tx, err := client.Tx(context.WithoutCancel(ctx))
	must(err)
	defer func() { _ = tx.Rollback() }()
	result, err := sqldedup.DoTx(ctx, s.d, tx, call("invoice 17"), func(ctx context.Context) (*ent.Note, error) {
		return tx.Note.Create().SetText("invoice 17").Save(ctx)
	})
	must(err)
	must(tx.Commit())
	fmt.Println(result.Value.Text, "replayed:", result.Replayed)
	// Output: invoice 17 replayed: false
}
