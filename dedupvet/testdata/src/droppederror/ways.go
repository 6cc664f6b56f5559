package droppederror

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

// Nobody looks at the first error, or goes on whatever it is.
func lost(ctx context.Context, d *dedup.Deduper, call dedup.Call, ids []int) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "INSERT") // want `the error of Exec is dropped`
		_, err = tx.Exec(ctx, "INSERT")
		return 1, err
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		for _, id := range ids {
			if _, err := tx.Exec(ctx, "INSERT", id); err != nil { // want `the error of Exec is passed over`
				continue
			}
		}
		return 1, nil
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (n int, err error) {
		defer func() { err = wrap(err) }()
		if _, err = tx.Exec(ctx, "INSERT"); err != nil {
			return 0, nil // want `the error of Exec becomes a success`
		}
		return 1, nil
	})
}

// The error comes back in another way.
func comesBack(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		failed := false
		if _, err := tx.Exec(ctx, "INSERT"); err != nil {
			failed = true
		}
		if failed {
			return 0, errors.New("not inserted")
		}
		return 1, nil
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (n int, err error) {
		defer func() { err = wrap(err) }()
		if _, err = tx.Exec(ctx, "INSERT"); err != nil {
			return 0, err
		}
		return 1, nil
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "INSERT")
		ErrorIs(err, context.Canceled)
		return 1, nil
	})
}

func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("inserting: %w", err)
	}
	return nil
}

// ErrorIs does as require.ErrorIs does, and writes no log.
func ErrorIs(err, target error) {
	if !errors.Is(err, target) {
		panic(err)
	}
}
