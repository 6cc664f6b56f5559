package effects

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// A function that package sqldedup calls is an effect, with any handle.

func handles(ctx context.Context, d *dedup.Deduper, call dedup.Call, tx *sql.Tx) {
	dedup.Do(ctx, d, call, sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, nil })) // want "effect"
	dedup.Do(ctx, d, call, sqldedup.Effect(onDB))
	sqldedup.DoTx(ctx, d, tx, call, func(ctx context.Context) (int, error) { return 1, nil }) // want "effect"
	sqldedup.BeginFunc(ctx, d, func(tx *sql.Tx) error { return nil })                         // want "effect"
}

func onDB(ctx context.Context, db *sql.DB) (int, error) { return 1, nil } // want "effect"

func inside(ctx context.Context, tx pgx.Tx, in string) (int, error) {
	return sqldedup.Run(ctx, tx, func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, nil }) // want "effect"
}
