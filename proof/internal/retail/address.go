package retail

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
)

// OrderAddressIn are the arguments of modify_pending_order_address.
type OrderAddressIn struct {
	OrderID  string `json:"order_id"`
	Address1 string `json:"address1"`
	Address2 string `json:"address2"`
	City     string `json:"city"`
	State    string `json:"state"`
	Country  string `json:"country"`
	Zip      string `json:"zip"`
}

// ModifyOrderAddress sends a pending order elsewhere.
func ModifyOrderAddress(ctx context.Context, tx pgx.Tx, in OrderAddressIn) (*Order, error) {
	order, err := lockOrder(ctx, tx, in.OrderID, statusPending, "non-pending order cannot be modified")
	if err != nil {
		return nil, err
	}
	order.Address = Address{
		Address1: in.Address1, Address2: in.Address2,
		City: in.City, State: in.State, Country: in.Country, Zip: in.Zip,
	}
	if err := saveOrder(ctx, tx, order); err != nil {
		return nil, err
	}
	return order, effect.Record(ctx, tx, Domain, "modify_pending_order_address", in.OrderID)
}

// UserAddressIn are the arguments of modify_user_address.
type UserAddressIn struct {
	UserID   string `json:"user_id"`
	Address1 string `json:"address1"`
	Address2 string `json:"address2"`
	City     string `json:"city"`
	State    string `json:"state"`
	Country  string `json:"country"`
	Zip      string `json:"zip"`
}

// ModifyUserAddress changes where a user lives and returns the user. Orders
// keep their own address.
func ModifyUserAddress(ctx context.Context, tx pgx.Tx, in UserAddressIn) (*User, error) {
	user, err := lockUser(ctx, tx, in.UserID)
	if err != nil {
		return nil, err
	}
	user.Address = Address{
		Address1: in.Address1, Address2: in.Address2,
		City: in.City, State: in.State, Country: in.Country, Zip: in.Zip,
	}
	if err := saveUser(ctx, tx, in.UserID, user); err != nil {
		return nil, err
	}
	return user, effect.Record(ctx, tx, Domain, "modify_user_address", in.UserID)
}
