package bad

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

func dropped(ctx context.Context, d *dedup.Deduper, call dedup.Call) error {
	_, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		tag, _ := tx.Exec(ctx, `INSERT INTO tickets (title) VALUES ('printer')`)
		return tag.RowsAffected(), nil
	})
	return err
}
