package droppederror

import (
	"context"
	"errors"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tooldedup/dedup"

	"store"
)

func ignored(ctx context.Context, d *dedup.Deduper, call dedup.Call, queries *store.Queries) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
		tx.Exec(ctx, "INSERT")               // want `the error of Exec is dropped in an effect`
		_, _ = tx.Exec(ctx, "INSERT")        // want `the error of Exec is dropped`
		tag, _ := tx.Exec(ctx, "INSERT")     // want `the error of Exec is dropped`
		rows, _ := tx.Query(ctx, "SELECT 1") // want `the error of Query is dropped`
		rows.Close()
		tx.QueryRow(ctx, "SELECT 1").Scan(&id)                 // want `the error of Scan is dropped`
		_ = tx.QueryRow(ctx, "SELECT 1").Scan(&id)             // want `the error of Scan is dropped`
		n, _ := tx.CopyFrom(ctx, pgx.Identifier{}, nil, nil)   // want `the error of CopyFrom is dropped`
		tx.SendBatch(ctx, &pgx.Batch{}).Close()                // want `the error of Close is dropped`
		defer tx.Exec(ctx, "INSERT")                           // want `the error of Exec is dropped`
		_, _ = queries.WithTx(tx).CreateTicket(ctx, "printer") // want `the error of CreateTicket is dropped`
		touch(ctx, tx)                                         // want `the error of touch is dropped`
		touchAll := func() error { return touch(ctx, tx) }
		touchAll() // want `the error of touchAll is dropped`
		_, _ = tag, n
		return id, nil
	})
}

func touch(ctx context.Context, tx pgx.Tx) error {
	_, _ = tx.Exec(ctx, "UPDATE") // want `the error of Exec is dropped in touch, which an effect calls`
	return nil
}

func inBatches(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		results := tx.SendBatch(ctx, &pgx.Batch{})
		results.Exec()                // want `the error of Exec is dropped`
		savepoint, _ := tx.Begin(ctx) // want `the error of Begin is dropped`
		_ = savepoint.Commit(ctx)     // want `the error of Commit is dropped`
		return 1, results.Close()
	})
}

func swallowed(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "INSERT")
		if err != nil {
			log.Println(err)
			return 0, nil // want `the error of Exec becomes a success in an effect`
		}
		if err := touch(ctx, tx); err != nil {
			return 0, nil // want `the error of touch becomes a success`
		}
		var id int
		if err = tx.QueryRow(ctx, "INSERT").Scan(&id); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return 0, nil // want `the error of Scan becomes a success`
		}
		return id, nil
	})
}

// A unique violation ends the transaction like any other error.
func violations(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "INSERT")
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code == "23505" {
			return 0, nil // want `the error of Exec becomes a success`
		}
		if err != nil {
			if errors.As(err, &pgErr) {
				return 0, nil // want `the error of Exec becomes a success`
			}
			return 0, err
		}
		return 1, nil
	})
}

func unasked(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (sum int, err error) {
		rows, err := tx.Query(ctx, "SELECT 1") // want `rows.Err is never asked for in an effect`
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
}

func inSwitches(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "INSERT")
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return 0, nil
		case err != nil:
			return 0, nil // want `the error of Exec becomes a success`
		}
		return 1, nil
	})
}

func passedOver(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "INSERT")
		if err != nil { // want `the error of Exec is passed over in an effect`
			log.Println("inserting:", err)
		}
		if err := touch(ctx, tx); err != nil { // want `the error of touch is passed over`
		}
		return 1, nil
	})
}
