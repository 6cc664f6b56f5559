package effectwrites

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup"
)

func ignored(ctx context.Context, d *dedup.Deduper, call dedup.Call, pool *pgxpool.Pool) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		pool.Exec(ctx, "INSERT") //dedupvet:ignore it is known
		pool.Exec(ctx, "INSERT") // want `Exec on a`
		//dedupvet:ignore it is known
		pool.Exec(ctx, "INSERT")
		pool.Exec(ctx, "INSERT") // want `Exec on a`
		//dedupvet:ignore
		pool.Exec(ctx, "INSERT") // want `Exec on a`
		//dedupvet:ignored by nobody
		pool.Exec(ctx, "INSERT") // want `Exec on a`
		return 1, nil
	})
}
