package keyloop

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

func ignored(ctx context.Context, d *dedup.Deduper, call dedup.Call, effect func(context.Context, pgx.Tx) (int, error)) {
	for {
		call.Key = dedup.NewKey() //dedupvet:ignore it is known
		call.Key = dedup.NewKey() // want `Call.Key is minted`
		//dedupvet:ignore it is known
		call.Key = dedup.NewKey()
		call.Key = dedup.NewKey() // want `Call.Key is minted`
		//dedupvet:ignore
		call.Key = dedup.NewKey() // want `Call.Key is minted`
		//dedupvet:ignored by nobody
		call.Key = dedup.NewKey() // want `Call.Key is minted`
		if _, err := dedup.Do(ctx, d, call, effect); err == nil {
			return
		}
	}
}
