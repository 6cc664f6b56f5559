package bad

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

func goroutine(ctx context.Context, d *dedup.Deduper, call dedup.Call) error {
	_, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (n int64, err error) {
		var wg sync.WaitGroup
		wg.Go(func() {
			tag, execErr := tx.Exec(ctx, `INSERT INTO tickets (title) VALUES ('printer')`)
			n, err = tag.RowsAffected(), execErr
		})
		wg.Wait()
		return n, err
	})
	return err
}
