package way

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Bare is the transaction that the effect needs anyway, without any protection:
// what no way that calls back can beat, and the base of all ratios.
func Bare() Way {
	return Way{
		Name: Base, Title: "bare transaction", Batch: 1,
		Open: withPool(func(ctx context.Context, pool *pgxpool.Pool, key string) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := insert(ctx, tx, key)
				return err
			})
		}),
	}
}
