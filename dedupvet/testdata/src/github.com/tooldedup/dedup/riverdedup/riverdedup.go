// Package riverdedup stands in for that of the library, as far as the cases use it.
package riverdedup

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

func Do[J any](ctx context.Context, d *dedup.Deduper, scope string, job J, effect func(ctx context.Context, tx pgx.Tx) error) error {
	return nil
}
