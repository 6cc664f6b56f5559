package droppederror

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup"

	"store"
)

func returned(ctx context.Context, d *dedup.Deduper, call dedup.Call, queries *store.Queries) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
		if _, err := tx.Exec(ctx, "INSERT"); err != nil {
			return 0, fmt.Errorf("inserting: %w", err)
		}
		if _, err = queries.WithTx(tx).CreateTicket(ctx, "printer"); err != nil {
			return
		}
		return id, tx.QueryRow(ctx, "SELECT 1").Scan(&id)
	})
}

// A query that finds no row has not failed.
func noRow(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
		err = tx.QueryRow(ctx, "SELECT 1").Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if err := tx.QueryRow(ctx, "SELECT 2").Scan(&id); err != nil {
			if errors.Is(err, pgx.ErrNoRows) {
				return 0, nil
			}
			return 0, dedup.Final(err)
		}
		return id, nil
	})
}

// What fails behind a savepoint leaves the transaction as it was.
func behindSavepoint(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		savepoint, err := tx.Begin(ctx)
		if err != nil {
			return 0, err
		}
		defer savepoint.Rollback(ctx)
		if _, err := savepoint.Exec(ctx, "INSERT"); err != nil {
			_ = savepoint.Rollback(ctx)
			return 0, nil
		}
		if err := savepoint.Commit(ctx); err != nil {
			return 0, err
		}
		err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT")
			return err
		})
		if err != nil {
			return 0, nil
		}
		return 1, nil
	})
}

func rowsAsked(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (sum int, err error) {
		rows, err := tx.Query(ctx, "SELECT 1")
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		for rows.Next() {
			sum++
		}
		return sum, rows.Err()
	})
}

func rowsCollected(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) ([]int, error) {
		rows, err := tx.Query(ctx, "SELECT 1")
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[int])
	})
}

func batchRead(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		results := tx.SendBatch(ctx, &pgx.Batch{})
		defer results.Close()
		if _, err := results.Exec(); err != nil {
			return 0, err
		}
		return 1, results.Close()
	})
}

// Errors of something else.
func elsewhere(ctx context.Context, d *dedup.Deduper, call dedup.Call, parse func(string) (int, error)) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		n, err := parse("1")
		if err != nil {
			return 0, nil
		}
		_, _ = parse("2")
		fmt.Println(tx)
		return n, touchWell(ctx, tx)
	})
}

func touchWell(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "UPDATE")
	return err
}

// What comes after an effect may make of its error what it likes.
func after(ctx context.Context, d *dedup.Deduper, call dedup.Call, pool *pgxpool.Pool) (int, error) {
	result, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		return 1, touchWell(ctx, tx)
	})
	if err != nil {
		return 0, nil
	}
	_, _ = pool.Exec(ctx, "UPDATE")
	return result.Value, nil
}

// An error that is logged, collected or kept, and returned in the end.
func returnedLater(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (n int, err error) {
		_, err = tx.Exec(ctx, "INSERT")
		if err != nil {
			log.Println(err)
		}
		return
	})
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		var errs []error
		if _, err := tx.Exec(ctx, "INSERT"); err != nil {
			errs = append(errs, err)
		}
		_, err := tx.Exec(ctx, "INSERT")
		if err != nil {
			log.Println(err)
		}
		return len(errs), errors.Join(append(errs, err)...)
	})
}

func inSwitchesWell(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
		err = tx.QueryRow(ctx, "SELECT 1").Scan(&id)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return 0, nil
		case err != nil:
			return 0, err
		}
		return id, nil
	})
}

// A literal of the effect's own that returns no error.
func looksUp(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		find := func(id int) *int {
			if err := tx.QueryRow(ctx, "SELECT 1").Scan(&id); err != nil {
				return nil
			}
			return &id
		}
		if found := find(1); found != nil {
			return *found, nil
		}
		return 0, errors.New("not found")
	})
}
