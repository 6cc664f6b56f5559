package droppederror

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

func ignored(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		tx.Exec(ctx, "INSERT") //dedupvet:ignore it is known
		tx.Exec(ctx, "INSERT") // want `the error of Exec`
		//dedupvet:ignore it is known
		tx.Exec(ctx, "INSERT")
		tx.Exec(ctx, "INSERT") // want `the error of Exec`
		//dedupvet:ignore
		tx.Exec(ctx, "INSERT") // want `the error of Exec`
		//dedupvet:ignored by nobody
		tx.Exec(ctx, "INSERT") // want `the error of Exec`
		return 1, nil
	})
}
