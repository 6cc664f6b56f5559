package droppederror

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

// The error decides what is done, and is lost.
func onlyIfItSucceeds(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (n int, _ error) {
		_, err := tx.Exec(ctx, "INSERT")
		if err == nil { // want `the error of Exec is passed over in an effect`
			n = 1
		}
		return n, nil
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (n int, err error) {
		if _, err := tx.Exec(ctx, "INSERT"); err == nil && n == 0 { // want `the error of Exec is passed over`
			return 1, nil
		}
		return n, nil
	})
}

// The error, or another one, is returned.
func notPassedOver(ctx context.Context, d *dedup.Deduper, call dedup.Call, f func(pgx.Tx) error) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (n int, _ error) {
		_, err := tx.Exec(ctx, "INSERT")
		if err == nil {
			n = 1
		}
		return n, err
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		if _, err := tx.Exec(ctx, "INSERT"); err == nil {
			return 1, nil
		}
		return 0, errors.New("not inserted")
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (n int, err error) {
		if _, err = tx.Exec(ctx, "INSERT"); err == nil {
			n = 1
		}
		return
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (n int, _ error) {
		if err := attempt(ctx, tx, f); err == nil {
			n = 1
		}
		return n, nil
	})
}
