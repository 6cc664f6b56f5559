package retail

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// CancelIn are the arguments of cancel_pending_order.
type CancelIn struct {
	OrderID string `json:"order_id"`
	Reason  string `json:"reason"`
}

// CancelOrder cancels a pending order and refunds every payment; a gift card
// has its money back at once.
func CancelOrder(ctx context.Context, tx pgx.Tx, in CancelIn) (*Order, error) {
	order, err := lockOrder(ctx, tx, in.OrderID, statusPending, "non-pending order cannot be cancelled")
	if err != nil {
		return nil, err
	}
	if in.Reason != "no longer needed" && in.Reason != "ordered by mistake" {
		return nil, kit.Refuse("invalid reason")
	}
	if err := refundGiftCards(ctx, tx, order); err != nil {
		return nil, err
	}
	for _, paid := range order.PaymentHistory {
		back := Payment{TransactionType: refund, Amount: paid.Amount, PaymentMethodID: paid.PaymentMethodID}
		order.PaymentHistory = append(order.PaymentHistory, back)
	}
	order.Status = statusCancelled
	order.CancelReason = in.Reason
	if err := saveOrder(ctx, tx, order); err != nil {
		return nil, err
	}
	return order, effect.Record(ctx, tx, Domain, "cancel_pending_order", in.OrderID)
}

// refundGiftCards puts an order's payments back on the gift cards that paid
// them, and leaves the user alone where none did.
func refundGiftCards(ctx context.Context, tx pgx.Tx, order *Order) error {
	var user *User
	for _, paid := range order.PaymentHistory {
		if !namesGiftCard(paid.PaymentMethodID) {
			continue
		}
		if user == nil {
			locked, err := lockOwner(ctx, tx, order)
			if err != nil {
				return err
			}
			user = locked
		}
		card, ok := user.PaymentMethods[paid.PaymentMethodID]
		if !ok {
			return kit.Refuse("'%s'", paid.PaymentMethodID)
		}
		card.refund(paid.Amount)
	}
	if user == nil {
		return nil
	}
	return saveUser(ctx, tx, order.UserID, user)
}
