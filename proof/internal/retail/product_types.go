package retail

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ProductTypesIn are the arguments of list_all_product_types: none.
type ProductTypesIn struct{}

// ProductTypes returns the id of every product by its name.
func ProductTypes(ctx context.Context, tx pgx.Tx, _ ProductTypesIn) (map[string]string, error) {
	rows, err := tx.Query(ctx, `
		SELECT name, product_id
		FROM retail_products`)
	if err != nil {
		return nil, fmt.Errorf("listing products: %w", err)
	}
	ids := map[string]string{}
	var name, id string
	_, err = pgx.ForEachRow(rows, []any{&name, &id}, func() error {
		ids[name] = id
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing products: %w", err)
	}
	return ids, nil
}
