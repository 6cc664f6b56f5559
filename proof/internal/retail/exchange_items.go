package retail

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// ExchangeItems asks for items of a delivered order to be exchanged. Items and
// money move elsewhere, when the parcel is back.
func ExchangeItems(ctx context.Context, tx pgx.Tx, in SwapIn) (*Order, error) {
	order, err := lockOrder(ctx, tx, in.OrderID, statusDelivered, "non-delivered order cannot be exchanged")
	if err != nil {
		return nil, err
	}
	if err := checkPairs(order, in.ItemIDs, in.NewItemIDs); err != nil {
		return nil, err
	}
	_, difference, err := priceSwap(ctx, tx, order, in.ItemIDs, in.NewItemIDs)
	if err != nil {
		return nil, err
	}
	difference = kit.Round2(difference)
	_, method, err := lockPayer(ctx, tx, order, in.PaymentMethodID)
	if err != nil {
		return nil, err
	}
	if !method.covers(difference) {
		return nil, kit.Refuse("insufficient gift card balance to pay for the price difference")
	}

	order.Status = statusExchangeRequested
	order.ExchangeItems = sorted(in.ItemIDs)
	order.ExchangeNewItems = sorted(in.NewItemIDs)
	order.ExchangePaymentMethodID = in.PaymentMethodID
	order.ExchangePriceDifference = &difference
	if err := saveOrder(ctx, tx, order); err != nil {
		return nil, err
	}
	return order, effect.Record(ctx, tx, Domain, "exchange_delivered_order_items", in.OrderID)
}
