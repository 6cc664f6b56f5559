package retail

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/doc"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// missingItem is the first of ids that is asked for more often than the order
// has it.
func missingItem(order *Order, ids []string) (string, bool) {
	left := map[string]int{}
	for _, item := range order.Items {
		left[item.ItemID]++
	}
	asked := map[string]int{}
	for _, id := range ids {
		asked[id]++
	}
	for _, id := range ids {
		if asked[id] > left[id] {
			return id, true
		}
	}
	return "", false
}

// checkPairs refuses unless every id is in the order and has its partner.
func checkPairs(order *Order, ids, newIDs []string) error {
	if id, missing := missingItem(order, ids); missing {
		return kit.Refuse("%s not found", id)
	}
	if len(ids) != len(newIDs) {
		return kit.Refuse("the number of items to be exchanged should match")
	}
	return nil
}

// findItem is the first item of an order with an id.
func findItem(order *Order, id string) *Item {
	at := slices.IndexFunc(order.Items, func(item Item) bool { return item.ItemID == id })
	if at < 0 {
		return nil
	}
	return &order.Items[at]
}

// priceSwap finds the variant that replaces each item, in order, and sums what
// they cost more, not rounded. It refuses where a new id is not a variant of
// the old item's product, or is not available.
func priceSwap(ctx context.Context, tx pgx.Tx, order *Order, ids, newIDs []string) ([]Variant, float64, error) {
	products := map[string]*Product{}
	var variants []Variant
	var difference float64
	for i, id := range ids {
		old := findItem(order, id)
		product, err := readProduct(ctx, tx, products, old.ProductID)
		if err != nil {
			return nil, 0, err
		}
		variant, known := product.Variants[newIDs[i]]
		if !known || !variant.Available {
			return nil, 0, kit.Refuse("new item %s not found or available", newIDs[i])
		}
		variants = append(variants, variant)
		difference += variant.Price - old.Price
	}
	return variants, difference, nil
}

// readProduct reads each product once. Products never change: no lock.
func readProduct(ctx context.Context, tx pgx.Tx, read map[string]*Product, id string) (*Product, error) {
	if product, ok := read[id]; ok {
		return product, nil
	}
	product, err := doc.Get[*Product](ctx, tx, `
		SELECT doc
		FROM retail_products
		WHERE product_id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("reading product %s: %w", id, err)
	}
	read[id] = product
	return product, nil
}

// sorted returns ids in order without touching the caller's; never nil.
func sorted(ids []string) []string {
	ids = append([]string{}, ids...)
	slices.Sort(ids)
	return ids
}
