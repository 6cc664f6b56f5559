package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/tooldedup/dedup/migrations"
)

// migrate applies the migrations of the program's version of the library.
func migrate(ctx context.Context, pool *pgxpool.Pool, version int64) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName(migrations.VersionTable))
	if err != nil {
		return err
	}
	if version != 0 {
		_, err = provider.UpTo(ctx, version)
	} else if _, err = provider.Up(ctx); err == nil {
		err = migrations.Check(ctx, pool, nil)
	}
	return err
}
