package deduptest_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
)

// Define a tool once, for tests and for TestMain, which passes it to deduptest.Child. In your test
// tb is its *testing.T.
func ExampleVerify() {
	addNote := deduptest.Tool{
		Name: "add_note",
		Call: func(ctx context.Context, try deduptest.Try) (any, error) {
			text := fmt.Sprint("note ", try.Variant)
			call := dedup.Call{Scope: "acme", Tool: "add_note", Key: try.Key, Args: text}
			result, err := dedup.Do(ctx, try.Deduper, call, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
				err = tx.QueryRow(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, text).Scan(&id)
				return id, err
			})
			return result.Value, err
		},
		Count: func(ctx context.Context, db *pgxpool.Pool) (n int, err error) {
			err = db.QueryRow(ctx, `SELECT count(*) FROM notes`).Scan(&n)
			return n, err
		},
	}

	tb, databaseURL, done := exampleDatabase(`CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY, text text)`)
	defer done()
	report := deduptest.Verify(tb, databaseURL, addNote, &deduptest.Options{
		Without: []deduptest.Scenario{deduptest.ProcessKilled}, // an example has no TestMain
	})
	fmt.Println(len(report.Scenarios), "scenarios, failed:", report.Failed())

	// Output:
	// 9 scenarios, failed: []
}
