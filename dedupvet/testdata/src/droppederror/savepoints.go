package droppederror

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tooldedup/dedup"
)

func attempt(ctx context.Context, tx pgx.Tx, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, tx, f)
}

func attemptByHand(ctx context.Context, tx pgx.Tx) error {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	defer savepoint.Rollback(ctx)
	if _, err := savepoint.Exec(ctx, "INSERT"); err != nil {
		return err
	}
	return savepoint.Commit(ctx)
}

// Half of it is outside of the savepoint.
func attemptHalf(ctx context.Context, tx pgx.Tx, f func(pgx.Tx) error) error {
	if _, err := tx.Exec(ctx, "INSERT"); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, tx, f)
}

func attempts(ctx context.Context, d *dedup.Deduper, call dedup.Call, f func(pgx.Tx) error) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		err := attempt(ctx, tx, f)
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code == "23505" {
			return 1, nil
		}
		if err := attemptByHand(ctx, tx); err != nil {
			return 2, nil
		}
		if err := attemptHalf(ctx, tx, f); err != nil {
			return 3, nil // want `the error of attemptHalf becomes a success`
		}
		return 0, err
	})
}
