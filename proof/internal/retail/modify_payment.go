package retail

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// ModifyPaymentIn are the arguments of modify_pending_order_payment.
type ModifyPaymentIn struct {
	OrderID         string `json:"order_id"`
	PaymentMethodID string `json:"payment_method_id"`
}

// ModifyPayment has another method pay for a pending order, and refunds the
// one that did. The order stays pending, but has no longer one payment, so
// that it cannot be done again.
func ModifyPayment(ctx context.Context, tx pgx.Tx, in ModifyPaymentIn) (*Order, error) {
	order, err := lockOrder(ctx, tx, in.OrderID, statusPending, "non-pending order cannot be modified")
	if err != nil {
		return nil, err
	}
	user, method, err := lockPayer(ctx, tx, order, in.PaymentMethodID)
	if err != nil {
		return nil, err
	}
	if len(order.PaymentHistory) != 1 || order.PaymentHistory[0].TransactionType != payment {
		return nil, kit.Refuse("there should be exactly one payment for a pending order")
	}
	paid := order.PaymentHistory[0]
	if paid.PaymentMethodID == in.PaymentMethodID {
		return nil, kit.Refuse("the new payment method should be different from the current one")
	}
	if !method.covers(paid.Amount) {
		return nil, kit.Refuse("insufficient gift card balance to pay for the order")
	}

	method.charge(paid.Amount)
	if namesGiftCard(paid.PaymentMethodID) {
		before, ok := user.PaymentMethods[paid.PaymentMethodID]
		if !ok {
			return nil, kit.Refuse("'%s'", paid.PaymentMethodID)
		}
		before.refund(paid.Amount)
	}
	order.PaymentHistory = append(order.PaymentHistory,
		Payment{TransactionType: payment, Amount: paid.Amount, PaymentMethodID: in.PaymentMethodID},
		Payment{TransactionType: refund, Amount: paid.Amount, PaymentMethodID: paid.PaymentMethodID})
	if err := saveUser(ctx, tx, order.UserID, user); err != nil {
		return nil, err
	}
	if err := saveOrder(ctx, tx, order); err != nil {
		return nil, err
	}
	return order, effect.Record(ctx, tx, Domain, "modify_pending_order_payment", in.OrderID)
}
