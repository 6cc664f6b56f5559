package way

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Bare is the transaction that the effect needs anyway, without any protection:
// what no way that calls back can beat, and the base of all ratios.
func Bare() Way {
	return Way{
		Name: Base, Title: "bare transaction", Batch: 1,
		Open: func(ctx context.Context, env Env) (Session, error) {
			pool, err := newPool(ctx, env.Postgres, env.Clients)
			if err != nil {
				return nil, err
			}
			return bare{onePool{pool}}, nil
		},
	}
}

type bare struct{ onePool }

func (s bare) Call(ctx context.Context, keys []string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var id int
		return tx.QueryRow(ctx, effect, keys[0]).Scan(&id)
	})
}
