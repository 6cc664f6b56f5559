package retail

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// SwapIn are the arguments of modify_pending_order_items and of exchange_delivered_order_items:
// items and, at the same places, those that replace them.
type SwapIn struct {
	OrderIn
	ItemIDs         []string `json:"item_ids"`
	NewItemIDs      []string `json:"new_item_ids"`
	PaymentMethodID string   `json:"payment_method_id"`
}

// modifyItems replaces items of a pending order by other variants of their products and settles
// the difference. It can be done once: the order's status is then no longer "pending".
func modifyItems(ctx context.Context, tx pgx.Tx, order *Order, in SwapIn) error {
	variants, difference, err := priceSwap(ctx, tx, order, in)
	if err != nil {
		return err
	}
	user, method, err := lockPayer(ctx, tx, order, in.PaymentMethodID)
	if err != nil {
		return err
	}
	if !method.covers(difference) {
		return kit.Refuse("insufficient gift card balance to pay for the new item")
	}
	// A difference of zero is noted as well.
	line := Payment{TransactionType: refund, Amount: math.Abs(difference), PaymentMethodID: in.PaymentMethodID}
	if difference > 0 {
		line.TransactionType = payment
	}
	order.PaymentHistory = append(order.PaymentHistory, line)
	method.charge(difference)
	for i, id := range in.ItemIDs {
		// An earlier pair may have used the id up by its own replacement: then none is replaced.
		if item := findItem(order, id); item != nil {
			item.ItemID, item.Price, item.Options = variants[i].ItemID, variants[i].Price, variants[i].Options
		}
	}
	order.Status = statusItemModified
	return users.Save(ctx, tx, order.UserID, user)
}

// exchangeItems asks for items of a delivered order to be exchanged. Items and money move
// elsewhere, when the parcel is back.
func exchangeItems(ctx context.Context, tx pgx.Tx, order *Order, in SwapIn) error {
	_, difference, err := priceSwap(ctx, tx, order, in)
	if err != nil {
		return err
	}
	difference = kit.Round2(difference)
	_, method, err := lockPayer(ctx, tx, order, in.PaymentMethodID)
	if err != nil {
		return err
	}
	if !method.covers(difference) {
		return kit.Refuse("insufficient gift card balance to pay for the price difference")
	}
	order.Status = statusExchangeRequested
	order.ExchangeItems, order.ExchangeNewItems = sorted(in.ItemIDs), sorted(in.NewItemIDs)
	order.ExchangePaymentMethodID, order.ExchangePriceDifference = in.PaymentMethodID, &difference
	return nil
}

// priceSwap finds the variant that replaces each item, in order, and sums what they cost more,
// not rounded. It refuses unless every id is in the order and has its partner, which is an
// available variant of the same product. Products never change: no lock.
func priceSwap(ctx context.Context, tx pgx.Tx, order *Order, in SwapIn) ([]Variant, float64, error) {
	if id, missing := missingItem(order, in.ItemIDs); missing {
		return nil, 0, kit.Refuse("%s not found", id)
	}
	if len(in.ItemIDs) != len(in.NewItemIDs) {
		return nil, 0, kit.Refuse("the number of items to be exchanged should match")
	}
	var variants []Variant
	var difference float64
	for i, id := range in.ItemIDs {
		old := findItem(order, id)
		product, err := products.Read(ctx, tx, old.ProductID)
		if err != nil {
			return nil, 0, fmt.Errorf("reading product %s: %w", old.ProductID, err)
		}
		variant, known := product.Variants[in.NewItemIDs[i]]
		if !known || !variant.Available {
			return nil, 0, kit.Refuse("new item %s not found or available", in.NewItemIDs[i])
		}
		variants = append(variants, variant)
		difference += variant.Price - old.Price
	}
	return variants, difference, nil
}

// missingItem is the first of ids that is asked for more often than the order has it.
func missingItem(order *Order, ids []string) (string, bool) {
	left := map[string]int{}
	for _, item := range order.Items {
		left[item.ItemID]++
	}
	for _, id := range ids {
		left[id]--
	}
	for _, id := range ids {
		if left[id] < 0 {
			return id, true
		}
	}
	return "", false
}

// findItem is the first item of an order with an id.
func findItem(order *Order, id string) *Item {
	at := slices.IndexFunc(order.Items, func(item Item) bool { return item.ItemID == id })
	if at < 0 {
		return nil
	}
	return &order.Items[at]
}

// sorted returns ids in order without touching the caller's; never nil.
func sorted(ids []string) []string {
	ids = append([]string{}, ids...)
	slices.Sort(ids)
	return ids
}
