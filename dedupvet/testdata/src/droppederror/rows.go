package droppederror

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

// The way of pgx's own documentation: the error of Query arrives through the rows.
func rowsTell(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) ([]int, error) {
		rows, _ := tx.Query(ctx, "SELECT 1")
		return pgx.CollectRows(rows, pgx.RowTo[int])
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (sum int, err error) {
		var n int
		rows, _ := tx.Query(ctx, "SELECT 1")
		if _, err := pgx.ForEachRow(rows, []any{&n}, func() error { sum += n; return nil }); err != nil {
			return 0, err
		}
		rows, _ = tx.Query(ctx, "SELECT 2")
		return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (sum int, err error) {
		rows, _ := tx.Query(ctx, "SELECT 1")
		for rows.Next() {
			sum++
		}
		return sum, rows.Err()
	})
}

// Rows that nobody asks, or of which only the last ones are asked.
func rowsKeepIt(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		rows, _ := tx.Query(ctx, "SELECT 1") // want `the error of Query is dropped`
		rows.Next()
		rows, _ = tx.Query(ctx, "SELECT 2")
		return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		rows, _ := tx.Query(ctx, "SELECT 1") // want `the error of Query is dropped`
		_, _ = rows, 1
		rows, _ = tx.Query(ctx, "SELECT 2")
		_, _ = pgx.CollectRows(rows, pgx.RowTo[int]) // want `the error of CollectRows is dropped`
		return 1, nil
	})
}
