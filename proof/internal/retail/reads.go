package retail

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// UserIn are the arguments of get_user_details.
type UserIn struct {
	UserID string `json:"user_id"`
}

// Subject is the user.
func (in UserIn) Subject() string { return in.UserID }

// OrderIn are the arguments of get_order_details.
type OrderIn struct {
	OrderID string `json:"order_id"`
}

// Subject is the order.
func (in OrderIn) Subject() string { return in.OrderID }

// ProductIn are the arguments of get_product_details.
type ProductIn struct {
	ProductID string `json:"product_id"`
}

// Subject is the product.
func (in ProductIn) Subject() string { return in.ProductID }

// productTypes returns the id of every product by its name.
func productTypes(ctx context.Context, tx pgx.Tx, _ struct{}) (ids map[string]string, err error) {
	err = tx.QueryRow(ctx, `
		SELECT coalesce(json_object_agg(name, product_id), '{}')
		FROM retail_products`).Scan(&ids)
	if err != nil {
		return nil, fmt.Errorf("listing products: %w", err)
	}
	return ids, nil
}

// EmailIn are the arguments of find_user_id_by_email.
type EmailIn struct {
	Email string `json:"email"`
}

// findByEmail answers with the id of the user who has an address, whatever its capitals.
func findByEmail(ctx context.Context, tx pgx.Tx, in EmailIn) (*string, error) {
	return findUser(ctx, tx, `
		SELECT user_id
		FROM retail_users
		WHERE email = lower($1)
		ORDER BY user_id
		LIMIT 1`, in.Email)
}

// NameZipIn are the arguments of find_user_id_by_name_zip.
type NameZipIn struct {
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Zip       string `json:"zip"`
}

// findByNameZip answers with the id of the user of a name, whatever its capitals, who lives at a
// zip code.
func findByNameZip(ctx context.Context, tx pgx.Tx, in NameZipIn) (*string, error) {
	return findUser(ctx, tx, `
		SELECT user_id
		FROM retail_users
		WHERE first_name = lower($1)
		AND last_name = lower($2)
		AND zip = $3
		ORDER BY user_id
		LIMIT 1`, in.FirstName, in.LastName, in.Zip)
}

func findUser(ctx context.Context, tx pgx.Tx, query string, args ...any) (*string, error) {
	var id string
	err := tx.QueryRow(ctx, query, args...).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, kit.Refuse("user not found")
	}
	if err != nil {
		return nil, fmt.Errorf("finding user: %w", err)
	}
	return &id, nil
}
