package effectwrites

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup/external"
)

func paysWith(pool *pgxpool.Pool) external.Tool[string, int] {
	return external.Tool[string, int]{
		// An attempt has no transaction.
		Perform: func(ctx context.Context, a external.Attempt, in string) (int, error) {
			_, err := pool.Exec(ctx, "INSERT INTO attempts")
			return 1, err
		},
		Refused: func(ctx context.Context, tx pgx.Tx, in string, why error) error {
			_, err := pool.Exec(ctx, "INSERT INTO refusals") // want `Exec on a \*pgxpool.Pool in an effect`
			return err
		},
		Finish: func(ctx context.Context, tx pgx.Tx, in string, out int) error {
			_, err := tx.Exec(ctx, "INSERT INTO payments")
			return err
		},
	}
}

func enqueuesWith(pool *pgxpool.Pool) *external.Options {
	return &external.Options{Enqueue: func(ctx context.Context, tx pgx.Tx, op external.Operation) error {
		_, err := pool.Exec(ctx, "INSERT INTO queue") // want `Exec on a \*pgxpool.Pool in an effect`
		return err
	}}
}
