package migrations_test

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// applicationMigrations are the application's own.
//
//go:embed testdata/application/*.sql
var applicationMigrations embed.FS

// An application that migrates with goose applies the library's migrations beside its own. Both
// begin at 1, and each have a version table of their own.
func Example() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()

	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()

	own, err := fs.Sub(applicationMigrations, "testdata/application")
	if err != nil {
		log.Fatal(err)
	}
	application, err := goose.NewProvider(goose.DialectPostgres, db, own)
	if err != nil {
		log.Fatal(err)
	}
	library, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS,
		goose.WithTableName(migrations.VersionTable))
	if err != nil {
		log.Fatal(err)
	}
	for _, provider := range []*goose.Provider{application, library} {
		results, err := provider.Up(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, result := range results {
			fmt.Println("applied", result.Source.Path)
		}
	}

	if err := migrations.Check(ctx, pool, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the schema is sound")
	// Output:
	// applied 00001_orders.sql
	// applied 00002_orders_paid.sql
	// applied 00001_tool_dedup.sql
	// applied 00002_tool_effect.sql
	// the schema is sound
}

// An application checks the schema when it starts, and does not start if calls could fail or run
// twice.
func ExampleCheck() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()

	sql, err := migrations.SQL()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Exec(ctx, sql); err != nil {
		log.Fatal(err)
	}
	fmt.Println(migrations.Check(ctx, pool, nil))

	if _, err := pool.Exec(ctx, "ALTER TABLE tool_dedup SET UNLOGGED"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(migrations.Check(ctx, pool, nil))
	// Output:
	// <nil>
	// dedup: the schema is not sound, 1 problem:
	// - unlogged: public.tool_dedup is UNLOGGED: a server crash empties it, and every call of before can run again; run: ALTER TABLE public.tool_dedup SET LOGGED
}

// exampleDatabase returns an empty database. The project's databases come with the schema.
func exampleDatabase() (pool *pgxpool.Pool, done func()) {
	return pgtest.Example("DROP TABLE tool_dedup, tool_dedup_audit, tool_dedup_stat, tool_effect, tool_dedup_version")
}
