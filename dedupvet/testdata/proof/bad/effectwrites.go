package bad

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup"
)

func writes(ctx context.Context, d *dedup.Deduper, pool *pgxpool.Pool, call dedup.Call) error {
	_, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		tag, err := pool.Exec(ctx, `INSERT INTO tickets (title) VALUES ('printer')`)
		return tag.RowsAffected(), err
	})
	return err
}
