package retail

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/doc"
)

// UserDetailsIn are the arguments of get_user_details.
type UserDetailsIn struct {
	UserID string `json:"user_id"`
}

// UserDetails returns a user's document as it is stored.
func UserDetails(ctx context.Context, tx pgx.Tx, in UserDetailsIn) (json.RawMessage, error) {
	return doc.Find[json.RawMessage](ctx, tx, "user not found", `
		SELECT doc
		FROM retail_users
		WHERE user_id = $1`, in.UserID)
}

// OrderDetailsIn are the arguments of get_order_details.
type OrderDetailsIn struct {
	OrderID string `json:"order_id"`
}

// OrderDetails returns an order's document as it is stored.
func OrderDetails(ctx context.Context, tx pgx.Tx, in OrderDetailsIn) (json.RawMessage, error) {
	return doc.Find[json.RawMessage](ctx, tx, "order not found", `
		SELECT doc
		FROM retail_orders
		WHERE order_id = $1`, in.OrderID)
}

// ProductDetailsIn are the arguments of get_product_details.
type ProductDetailsIn struct {
	ProductID string `json:"product_id"`
}

// ProductDetails returns a product's document as it is stored.
func ProductDetails(ctx context.Context, tx pgx.Tx, in ProductDetailsIn) (json.RawMessage, error) {
	return doc.Find[json.RawMessage](ctx, tx, "product not found", `
		SELECT doc
		FROM retail_products
		WHERE product_id = $1`, in.ProductID)
}
