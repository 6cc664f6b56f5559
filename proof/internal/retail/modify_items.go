package retail

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// SwapIn are the arguments of modify_pending_order_items and of
// exchange_delivered_order_items: items and, at the same places, what they
// become.
type SwapIn struct {
	OrderID         string   `json:"order_id"`
	ItemIDs         []string `json:"item_ids"`
	NewItemIDs      []string `json:"new_item_ids"`
	PaymentMethodID string   `json:"payment_method_id"`
}

// ModifyItems replaces items of a pending order by other variants of their
// products and settles the difference. It can be done once: the order's status
// is then no longer "pending".
func ModifyItems(ctx context.Context, tx pgx.Tx, in SwapIn) (*Order, error) {
	order, err := lockOrder(ctx, tx, in.OrderID, statusPending, "non-pending order cannot be modified")
	if err != nil {
		return nil, err
	}
	if err := checkPairs(order, in.ItemIDs, in.NewItemIDs); err != nil {
		return nil, err
	}
	variants, difference, err := priceSwap(ctx, tx, order, in.ItemIDs, in.NewItemIDs)
	if err != nil {
		return nil, err
	}
	user, method, err := lockPayer(ctx, tx, order, in.PaymentMethodID)
	if err != nil {
		return nil, err
	}
	if !method.covers(difference) {
		return nil, kit.Refuse("insufficient gift card balance to pay for the new item")
	}

	settle(order, in.PaymentMethodID, difference)
	method.charge(difference)
	for i, id := range in.ItemIDs {
		replace(order, id, variants[i])
	}
	order.Status = statusItemModified
	if err := saveUser(ctx, tx, order.UserID, user); err != nil {
		return nil, err
	}
	if err := saveOrder(ctx, tx, order); err != nil {
		return nil, err
	}
	return order, effect.Record(ctx, tx, Domain, "modify_pending_order_items", in.OrderID)
}

// settle notes a difference in an order's payment history, also one of zero.
func settle(order *Order, methodID string, difference float64) {
	line := Payment{TransactionType: refund, Amount: math.Abs(difference), PaymentMethodID: methodID}
	if difference > 0 {
		line.TransactionType = payment
	}
	order.PaymentHistory = append(order.PaymentHistory, line)
}

// replace turns the first item that has the id now into the variant. An
// earlier pair may have used the id up by its own replacement: then there is
// none left, and none is replaced.
func replace(order *Order, id string, variant Variant) {
	item := findItem(order, id)
	if item == nil {
		return
	}
	item.ItemID, item.Price, item.Options = variant.ItemID, variant.Price, variant.Options
}
