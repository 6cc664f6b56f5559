package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/retail"
)

// Items of the small recording: pads (cork 19.05, felt 17.60), barrels (slate
// 90 l 41.17, slate 120 l 61.12, moss 90 l 41.38, moss 120 l sold out).
const (
	cork, felt             = "500301", "500302"
	slate90, moss90        = "500101", "500103"
	slate120, moss120      = "500102", "500104"
	drawers12, drawers24   = "500201", "500202"
	paypal, creditCard     = "paypal_6601", "credit_card_5102"
	largeCard, smallCard   = "gift_card_6602", "gift_card_6603"
	mirelaCard             = "gift_card_5101"
	twoPads, mixed, barrel = "#K1004", "#K1005", "#K1001"
)

func TestModifyItems(t *testing.T) {
	t.Parallel()

	t.Run("DuplicateIDsAreReplacedOneByOne", func(t *testing.T) {
		t.Parallel()
		b := setupRetail(t)
		b.edit(t, twoPads, "{status}", `"pending"`)
		got, err := callTool[retail.Order](t.Context(), b.bundle, "modify_pending_order_items", retail.SwapIn{
			OrderIn: retail.OrderIn{OrderID: twoPads}, ItemIDs: []string{cork, slate120, cork}, NewItemIDs: []string{felt, slate90, cork}, PaymentMethodID: largeCard,
		})
		require.NoError(t, err)
		var ids []string
		for _, item := range got.Items {
			ids = append(ids, item.ItemID)
		}
		require.Equal(t, []string{felt, cork, slate90}, ids)
		// Not rounded in the order, rounded on the card.
		first, second := 17.6, 41.17
		difference := first - 19.05
		difference += second - 61.12
		line := got.PaymentHistory[len(got.PaymentHistory)-1]
		require.Equal(t, retail.Payment{TransactionType: "refund", Amount: -difference, PaymentMethodID: largeCard}, line)
		require.Equal(t, 331.8, b.balance(t, pike, largeCard))
	})

	t.Run("NoDifferenceIsARefundOfZero", func(t *testing.T) {
		t.Parallel()
		b := setupRetail(t)
		got, err := callTool[retail.Order](t.Context(), b.bundle, "modify_pending_order_items", retail.SwapIn{
			OrderIn: retail.OrderIn{OrderID: barrel}, ItemIDs: []string{cork}, NewItemIDs: []string{cork}, PaymentMethodID: creditCard,
		})
		require.NoError(t, err)
		require.Equal(t, retail.Payment{TransactionType: "refund", Amount: 0, PaymentMethodID: creditCard}, got.PaymentHistory[1])
	})

	t.Run("ReplacementIsFoundByALaterPair", func(t *testing.T) {
		t.Parallel()
		b := setupRetail(t)
		b.edit(t, twoPads, "{status}", `"pending"`)
		b.edit(t, twoPads, "{items,1,item_id}", `"500302"`)
		got, err := callTool[retail.Order](t.Context(), b.bundle, "modify_pending_order_items", retail.SwapIn{
			OrderIn: retail.OrderIn{OrderID: twoPads}, ItemIDs: []string{cork, felt}, NewItemIDs: []string{felt, cork}, PaymentMethodID: paypal,
		})
		require.NoError(t, err)
		require.Equal(t, cork, got.Items[0].ItemID, "felt, as the first pair left it, and then cork")
		require.Equal(t, felt, got.Items[1].ItemID)
	})

	t.Run("ChecksInOrder", func(t *testing.T) {
		t.Parallel()
		b := setupRetail(t)
		swap := func(order, method string, ids, newIDs []string) retail.SwapIn {
			return retail.SwapIn{OrderIn: retail.OrderIn{OrderID: order}, ItemIDs: ids, NewItemIDs: newIDs, PaymentMethodID: method}
		}
		one := []string{cork}
		requireRefused(t, b.bundle, "modify_pending_order_items", swap("#none", "x", one, one), "order not found")
		requireRefused(t, b.bundle, "modify_pending_order_items", swap(twoPads, "x", one, one), "non-pending order cannot be modified")
		requireRefused(t, b.bundle, "modify_pending_order_items", swap(barrel, "x", []string{cork, cork}, nil), "500301 not found")
		requireRefused(t, b.bundle, "modify_pending_order_items", swap(barrel, "x", []string{"?"}, nil), "? not found")
		requireRefused(t, b.bundle, "modify_pending_order_items", swap(barrel, "x", one, nil), "the number of items to be exchanged should match")
		requireRefused(t, b.bundle, "modify_pending_order_items", swap(barrel, "x", one, []string{slate120}), "new item 500102 not found or available")
		requireRefused(t, b.bundle, "modify_pending_order_items", swap(barrel, "x", []string{slate90}, []string{moss120}), "new item 500104 not found or available")
		requireRefused(t, b.bundle, "modify_pending_order_items", swap(barrel, "x", one, one), "payment method not found")
		b.edit(t, "#K1003", "{status}", `"pending"`)
		requireRefused(t, b.bundle, "modify_pending_order_items", swap("#K1003", smallCard, []string{drawers12}, []string{drawers24}),
			"insufficient gift card balance to pay for the new item")
	})

	t.Run("OnlyOnce", func(t *testing.T) {
		t.Parallel()
		b := setupRetail(t)
		in := retail.SwapIn{OrderIn: retail.OrderIn{OrderID: barrel}, ItemIDs: []string{slate90}, NewItemIDs: []string{moss90}, PaymentMethodID: mirelaCard}
		_, err := callTool[retail.Order](t.Context(), b.bundle, "modify_pending_order_items", in)
		require.NoError(t, err)
		require.Equal(t, 85.79, b.balance(t, mirela, mirelaCard))
		requireRefused(t, b.bundle, "modify_pending_order_items", in, "non-pending order cannot be modified")
	})
}

func TestExchangeItems(t *testing.T) {
	t.Parallel()
	b := setupRetail(t)
	in := retail.SwapIn{OrderIn: retail.OrderIn{OrderID: mixed}, ItemIDs: []string{drawers24, moss90}, NewItemIDs: []string{drawers12}, PaymentMethodID: "x"}
	requireRefused(t, b.bundle, "exchange_delivered_order_items", in, "the number of items to be exchanged should match")
	in.NewItemIDs = []string{drawers24, drawers12}
	requireRefused(t, b.bundle, "exchange_delivered_order_items", in, "new item 500201 not found or available")
	in.NewItemIDs = []string{drawers24, slate120}
	requireRefused(t, b.bundle, "exchange_delivered_order_items", in, "payment method not found")
	in.PaymentMethodID = smallCard
	requireRefused(t, b.bundle, "exchange_delivered_order_items", in, "insufficient gift card balance to pay for the price difference")
	in.PaymentMethodID = largeCard

	got, err := callTool[retail.Order](t.Context(), b.bundle, "exchange_delivered_order_items", in)
	require.NoError(t, err)
	require.Equal(t, []string{moss90, drawers24}, got.ExchangeItems)
	require.Equal(t, []string{slate120, drawers24}, got.ExchangeNewItems)
	require.Equal(t, 19.74, *got.ExchangePriceDifference)
	require.Equal(t, 310.4, b.balance(t, pike, largeCard), "no money moves yet")
	requireRefused(t, b.bundle, "exchange_delivered_order_items", in, "non-delivered order cannot be exchanged")
}

func TestReturnItems(t *testing.T) {
	t.Parallel()
	b := setupRetail(t)
	in := retail.ReturnIn{OrderIn: retail.OrderIn{OrderID: twoPads}, ItemIDs: []string{cork, cork, cork}, PaymentMethodID: "gift_card_0"}
	requireRefused(t, b.bundle, "return_delivered_order_items", in, "payment method not found")
	in.PaymentMethodID = smallCard
	requireRefused(t, b.bundle, "return_delivered_order_items", in, "some item not found")
	in.OrderID = barrel
	requireRefused(t, b.bundle, "return_delivered_order_items", in, "non-delivered order cannot be returned")
	requireRefused(t, b.bundle, "return_delivered_order_items", retail.ReturnIn{OrderIn: retail.OrderIn{OrderID: mixed}, PaymentMethodID: paypal},
		"payment method should be either the original payment method or a gift card")

	in = retail.ReturnIn{OrderIn: retail.OrderIn{OrderID: twoPads}, ItemIDs: []string{}, PaymentMethodID: smallCard}
	got, err := callTool[retail.Order](t.Context(), b.bundle, "return_delivered_order_items", in)
	require.NoError(t, err)
	require.Equal(t, "return requested", got.Status)
	require.JSONEq(t, `[]`, string(b.orderField(t, twoPads, "return_items")), "an empty list is written, not left out")
	require.Equal(t, 1, b.Effects(t))
}
