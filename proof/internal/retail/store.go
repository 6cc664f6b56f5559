package retail

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/doc"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// Domain is the name under which the shop's tools and tables go.
const Domain = "retail"

// lockOrder reads an order that the transaction will change, and refuses with
// wrongStatus unless it has the status.
func lockOrder(ctx context.Context, tx pgx.Tx, id, status, wrongStatus string) (*Order, error) {
	order, err := doc.Find[*Order](ctx, tx, "order not found", `
		SELECT doc
		FROM retail_orders
		WHERE order_id = $1
		FOR UPDATE`, id)
	if err != nil {
		return nil, err
	}
	if order.Status != status {
		return nil, kit.Refuse("%s", wrongStatus)
	}
	return order, nil
}

func saveOrder(ctx context.Context, tx pgx.Tx, order *Order) error {
	return doc.Save(ctx, tx, `
		UPDATE retail_orders
		SET doc = $2
		WHERE order_id = $1`, order.OrderID, order)
}

// lockUser reads a user that the transaction may change.
func lockUser(ctx context.Context, tx pgx.Tx, id string) (*User, error) {
	return doc.Find[*User](ctx, tx, "user not found", `
		SELECT doc
		FROM retail_users
		WHERE user_id = $1
		FOR UPDATE`, id)
}

// lockOwner is lockUser for an order that is locked already. Here a user who
// is missing is damage, no answer.
func lockOwner(ctx context.Context, tx pgx.Tx, order *Order) (*User, error) {
	user, err := lockUser(ctx, tx, order.UserID)
	var missing *kit.Refusal
	if errors.As(err, &missing) {
		return nil, fmt.Errorf("user %s of order %s is missing", order.UserID, order.OrderID)
	}
	return user, err
}

// lockPayer is lockOwner with the owner's payment method, and refuses where there is
// none of that id.
func lockPayer(ctx context.Context, tx pgx.Tx, order *Order, methodID string) (*User, *PaymentMethod, error) {
	user, err := lockOwner(ctx, tx, order)
	if err != nil {
		return nil, nil, err
	}
	method, ok := user.PaymentMethods[methodID]
	if !ok {
		return nil, nil, kit.Refuse("payment method not found")
	}
	return user, method, nil
}

func saveUser(ctx context.Context, tx pgx.Tx, id string, user *User) error {
	return doc.Save(ctx, tx, `
		UPDATE retail_users
		SET doc = $2
		WHERE user_id = $1`, id, user)
}
