package effectgoroutine

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

func ignored(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		go tx.Conn() //dedupvet:ignore it is known
		go tx.Conn() // want `a goroutine uses the transaction`
		//dedupvet:ignore it is known
		go tx.Conn()
		go tx.Conn() // want `a goroutine uses the transaction`
		//dedupvet:ignore
		go tx.Conn() // want `a goroutine uses the transaction`
		//dedupvet:ignored by nobody
		go tx.Conn() // want `a goroutine uses the transaction`
		return 1, nil
	})
}
