package retail

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// ReturnIn are the arguments of return_delivered_order_items.
type ReturnIn struct {
	OrderID         string   `json:"order_id"`
	ItemIDs         []string `json:"item_ids"`
	PaymentMethodID string   `json:"payment_method_id"`
}

// ReturnItems asks for items of a delivered order to be taken back, the money
// to go to a gift card or to where it came from. None moves yet.
func ReturnItems(ctx context.Context, tx pgx.Tx, in ReturnIn) (*Order, error) {
	order, err := lockOrder(ctx, tx, in.OrderID, statusDelivered, "non-delivered order cannot be returned")
	if err != nil {
		return nil, err
	}
	if _, _, err := lockPayer(ctx, tx, order, in.PaymentMethodID); err != nil {
		return nil, err
	}
	if !namesGiftCard(in.PaymentMethodID) {
		if len(order.PaymentHistory) == 0 {
			return nil, fmt.Errorf("order %s was never paid", order.OrderID)
		}
		if order.PaymentHistory[0].PaymentMethodID != in.PaymentMethodID {
			return nil, kit.Refuse("payment method should be either the original payment method or a gift card")
		}
	}
	if _, missing := missingItem(order, in.ItemIDs); missing {
		return nil, kit.Refuse("some item not found")
	}

	order.Status = statusReturnRequested
	order.ReturnItems = sorted(in.ItemIDs)
	order.ReturnPaymentMethodID = in.PaymentMethodID
	if err := saveOrder(ctx, tx, order); err != nil {
		return nil, err
	}
	return order, effect.Record(ctx, tx, Domain, "return_delivered_order_items", in.OrderID)
}
