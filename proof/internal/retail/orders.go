package retail

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// OrderAddressIn are the arguments of modify_pending_order_address.
type OrderAddressIn struct {
	OrderIn
	Address
}

// sendElsewhere sends a pending order elsewhere.
func sendElsewhere(_ context.Context, _ pgx.Tx, order *Order, in OrderAddressIn) error {
	order.Address = in.Address
	return nil
}

// UserAddressIn are the arguments of modify_user_address.
type UserAddressIn struct {
	UserIn
	Address
}

// move changes where a user lives. Orders keep their own address.
func move(_ context.Context, _ pgx.Tx, user *User, in UserAddressIn) error {
	user.Address = in.Address
	return nil
}

// CancelIn are the arguments of cancel_pending_order.
type CancelIn struct {
	OrderIn
	Reason string `json:"reason"`
}

// cancel cancels a pending order and refunds every payment; a gift card has its money back at
// once. The user is left alone where no gift card paid.
func cancel(ctx context.Context, tx pgx.Tx, order *Order, in CancelIn) (err error) {
	if in.Reason != "no longer needed" && in.Reason != "ordered by mistake" {
		return kit.Refuse("invalid reason")
	}
	var user *User
	for _, paid := range order.PaymentHistory {
		if namesGiftCard(paid.PaymentMethodID) {
			if user == nil {
				if user, err = lockOwner(ctx, tx, order); err != nil {
					return err
				}
			}
			card, ok := user.PaymentMethods[paid.PaymentMethodID]
			if !ok {
				return kit.Refuse("'%s'", paid.PaymentMethodID)
			}
			card.refund(paid.Amount)
		}
		order.PaymentHistory = append(order.PaymentHistory, Payment{TransactionType: refund, Amount: paid.Amount, PaymentMethodID: paid.PaymentMethodID})
	}
	order.Status, order.CancelReason = statusCancelled, in.Reason
	if user == nil {
		return nil
	}
	return users.Save(ctx, tx, order.UserID, user)
}

// PaymentIn are the arguments of modify_pending_order_payment.
type PaymentIn struct {
	OrderIn
	PaymentMethodID string `json:"payment_method_id"`
}

// modifyPayment has another method pay for a pending order, and refunds the one that did. The
// order stays pending, but has no longer one payment, so that it cannot be done again.
func modifyPayment(ctx context.Context, tx pgx.Tx, order *Order, in PaymentIn) error {
	user, method, err := lockPayer(ctx, tx, order, in.PaymentMethodID)
	if err != nil {
		return err
	}
	if len(order.PaymentHistory) != 1 || order.PaymentHistory[0].TransactionType != payment {
		return kit.Refuse("there should be exactly one payment for a pending order")
	}
	paid := order.PaymentHistory[0]
	if paid.PaymentMethodID == in.PaymentMethodID {
		return kit.Refuse("the new payment method should be different from the current one")
	}
	if !method.covers(paid.Amount) {
		return kit.Refuse("insufficient gift card balance to pay for the order")
	}
	method.charge(paid.Amount)
	if namesGiftCard(paid.PaymentMethodID) {
		before, ok := user.PaymentMethods[paid.PaymentMethodID]
		if !ok {
			return kit.Refuse("'%s'", paid.PaymentMethodID)
		}
		before.refund(paid.Amount)
	}
	order.PaymentHistory = append(order.PaymentHistory,
		Payment{TransactionType: payment, Amount: paid.Amount, PaymentMethodID: in.PaymentMethodID},
		Payment{TransactionType: refund, Amount: paid.Amount, PaymentMethodID: paid.PaymentMethodID})
	return users.Save(ctx, tx, order.UserID, user)
}

// ReturnIn are the arguments of return_delivered_order_items.
type ReturnIn struct {
	OrderIn
	ItemIDs         []string `json:"item_ids"`
	PaymentMethodID string   `json:"payment_method_id"`
}

// returnItems asks for items of a delivered order to be taken back, the money to go to a gift
// card or to where it came from. None moves yet.
func returnItems(ctx context.Context, tx pgx.Tx, order *Order, in ReturnIn) error {
	if _, _, err := lockPayer(ctx, tx, order, in.PaymentMethodID); err != nil {
		return err
	}
	if !namesGiftCard(in.PaymentMethodID) {
		if len(order.PaymentHistory) == 0 {
			return fmt.Errorf("order %s was never paid", order.OrderID)
		}
		if order.PaymentHistory[0].PaymentMethodID != in.PaymentMethodID {
			return kit.Refuse("payment method should be either the original payment method or a gift card")
		}
	}
	if _, missing := missingItem(order, in.ItemIDs); missing {
		return kit.Refuse("some item not found")
	}
	order.Status, order.ReturnItems, order.ReturnPaymentMethodID = statusReturnRequested, sorted(in.ItemIDs), in.PaymentMethodID
	return nil
}

// lockOwner locks the user of an order.
func lockOwner(ctx context.Context, tx pgx.Tx, order *Order) (*User, error) {
	return users.LockOwner(ctx, tx, order.UserID, "order "+order.OrderID)
}

// lockPayer is lockOwner with the owner's payment method, and refuses where there is none of
// that id.
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
