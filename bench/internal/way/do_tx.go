package way

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// DoTx is [dedup.DoTx] in a transaction of the caller's that holds nothing else.
func DoTx() Way {
	return Way{
		Name: "dotx", Title: "dedup.DoTx", Batch: 1, Replays: true, OneKey: true,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			s, err := newDeduper(ctx, env, nil)
			return doTx{s}, err
		},
	}
}

type doTx struct{ deduper }

func (s doTx) Call(ctx context.Context, keys []string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := dedup.DoTx(ctx, s.d, tx, call(keys[0]), book(keys[0]))
		return err
	})
}
