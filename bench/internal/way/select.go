package way

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Select reads a record by its primary key with pgx alone: what no replay can
// beat. A key without a record gets its effect and a record, so that the next
// call reads it.
func Select() Way {
	return Way{
		Name: "select", Title: "bare SELECT", Batch: 1, Replays: true, OneKey: true,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			pool, err := newPool(ctx, env.Postgres, env.Clients)
			if err != nil {
				return nil, err
			}
			return bareSelect{onePool{pool}}, nil
		},
	}
}

type bareSelect struct{ onePool }

func (s bareSelect) Call(ctx context.Context, keys []string) error {
	var fingerprint []byte
	var result string
	err := s.pool.QueryRow(ctx, `
		SELECT fingerprint, result
		FROM tool_dedup
		WHERE scope = $1 AND tool = $2 AND key = $3`, scope, tool, keys[0]).Scan(&fingerprint, &result)
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var id int
		if err := tx.QueryRow(ctx, effect, keys[0]).Scan(&id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
			VALUES ($1, $2, $3, '\x00', 'done', '{"id":1}', now(), now() + interval '1 day', now() + interval '31 days')`,
			scope, tool, keys[0])
		return err
	})
}
