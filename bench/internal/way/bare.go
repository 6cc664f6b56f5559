package way

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Bare is the transaction that the effect needs anyway, without any protection:
// what no way that calls back can beat, and the base of all ratios.
func Bare() Way {
	return Way{
		Name: Base, Title: "bare transaction", Batch: 1,
		Open: withPool(func(ctx context.Context, pool *pgxpool.Pool, keys []string) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := insert(ctx, tx, keys[0])
				return err
			})
		}),
	}
}

// Select reads a record by its primary key with pgx alone: what no replay can
// beat. A key without a record gets its effect and a record, so that the next
// call reads it.
func Select() Way {
	return Way{
		Name: "select", Title: "bare SELECT", Batch: 1, Replays: true, OneKey: true,
		Prepare: createRecords, Open: withPool(bareSelect),
	}
}

func bareSelect(ctx context.Context, pool *pgxpool.Pool, keys []string) error {
	var fingerprint []byte
	var result string
	err := pool.QueryRow(ctx, `
		SELECT fingerprint, result
		FROM tool_dedup
		WHERE scope = $1 AND tool = $2 AND key = $3`, scope, tool, keys[0]).Scan(&fingerprint, &result)
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := insert(ctx, tx, keys[0]); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
			VALUES ($1, $2, $3, '\x00', 'done', '{"id":1}', now(), now() + interval '1 day', now() + interval '31 days')`,
			scope, tool, keys[0])
		return err
	})
}
