package sqldedup_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/sqldedup"
)

func ExampleEffect() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)

	call := dedup.Call{Scope: "acme", Tool: "add_note", Key: "plan 7, step 2"}
	for range 2 {
		result, err := dedup.Do(ctx, d, call, sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (id int, err error) {
			err = tx.QueryRowContext(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, "call the guest").Scan(&id)
			return id, err
		}))
		must(err)
		fmt.Println("note", result.Value, "replayed:", result.Replayed)
	}
	// Output:
	// note 1 replayed: false
	// note 1 replayed: true
}

// A *sql.DB is for code that begins transactions: they are savepoints.
func ExampleEffect_db() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)

	add := func(ctx context.Context, db *sql.DB, text string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, `INSERT INTO notes (text) VALUES ($1)`, text); err != nil {
			return err
		}
		return tx.Commit()
	}
	call := dedup.Call{Scope: "acme", Tool: "add_notes", Key: "plan 7, step 3"}
	result, err := dedup.Do(ctx, d, call, sqldedup.Effect(func(ctx context.Context, db *sql.DB) (added int, err error) {
		for _, text := range []string{"call the guest", "clean the room", "call the guest"} {
			if add(ctx, db, text) == nil { // the third is undone, and the others stay
				added++
			}
		}
		return added, nil
	}))
	must(err)
	fmt.Println(result.Value, "notes")
	// Output: 2 notes
}

func ExampleDoTx() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)
	db := sqldedup.OpenDB(pool)
	defer func() { _ = db.Close() }()

	call := dedup.Call{Scope: "acme", Tool: "add_note", Key: "plan 7, step 4"}
	for range 2 {
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		must(err)
		result, err := sqldedup.DoTx(ctx, d, tx, call, func(ctx context.Context) (id int, err error) {
			err = tx.QueryRowContext(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, "call the guest").Scan(&id)
			return id, err
		})
		must(err)
		must(tx.Commit())
		fmt.Println("note", result.Value, "replayed:", result.Replayed)
	}
	// Output:
	// note 1 replayed: false
	// note 1 replayed: true
}

// Every write is in an effect: a write beside a call runs with every retry.
func ExampleBeginFunc() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)

	add := func(ctx context.Context, tx *sql.Tx, key, text string) (dedup.Result[int], error) {
		call := dedup.Call{Scope: "acme", Tool: "add_note", Key: key}
		return sqldedup.DoTx(ctx, d, tx, call, func(ctx context.Context) (id int, err error) {
			err = tx.QueryRowContext(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, text).Scan(&id)
			return id, err
		})
	}
	for range 2 {
		err = sqldedup.BeginFunc(ctx, d, func(tx *sql.Tx) error {
			first, err := add(ctx, tx, "plan 7, step 5", "call the guest")
			if err != nil {
				return err
			}
			second, err := add(ctx, tx, "plan 7, step 6", fmt.Sprintf("see note %d", first.Value))
			fmt.Println("notes", first.Value, "and", second.Value, "replayed:", second.Replayed)
			return err
		})
		must(err)
	}
	// Output:
	// notes 1 and 2 replayed: false
	// notes 1 and 2 replayed: true
}

// exampleDatabase returns a pool to a database with a table of notes.
func exampleDatabase() (pool *pgxpool.Pool, done func()) {
	return pgtest.Example(`CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY, text text NOT NULL UNIQUE)`)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
