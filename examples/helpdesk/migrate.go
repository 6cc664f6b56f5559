package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/tooldedup/dedup/migrations"
)

//go:embed migrations/*.sql
var ownMigrations embed.FS

// migrate applies dedup's migrations and the service's own, and checks dedup's table. Each has its
// own numbers and version table. A lock lets one instance migrate at a time.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	own, err := fs.Sub(ownMigrations, "migrations")
	if err != nil {
		return err
	}
	if err := apply(ctx, pool, migrations.FS, migrations.VersionTable); err != nil {
		return err
	}
	if err := apply(ctx, pool, own, goose.DefaultTablename); err != nil {
		return err
	}
	return migrations.Check(ctx, pool, nil)
}

func apply(ctx context.Context, pool *pgxpool.Pool, files fs.FS, versions string) error {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // tries each second
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(versions), goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("migrations of %s: %w", versions, err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrations of %s: %w", versions, err)
	}
	return nil
}
