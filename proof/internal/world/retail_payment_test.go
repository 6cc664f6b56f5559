package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/retail"
)

func TestCancelOrder(t *testing.T) {
	t.Parallel()

	t.Run("RefundsEveryLineAndRoundsTheCard", func(t *testing.T) {
		t.Parallel()
		b := setupRetail(t)
		b.edit(t, "#K1002", "{payment_history}", `[
			{"transaction_type": "payment", "amount": 0.20999999999999375, "payment_method_id": "gift_card_5101"},
			{"transaction_type": "refund", "amount": 5, "payment_method_id": "credit_card_5102"},
			{"transaction_type": "payment", "amount": 0.111, "payment_method_id": "gift_card_5101"}]`)
		got, err := callTool[retail.Order](t.Context(), b.bundle, "cancel_pending_order", retail.CancelIn{OrderIn: retail.OrderIn{OrderID: "#K1002"}, Reason: "no longer needed"})
		require.NoError(t, err)
		require.Equal(t, []retail.Payment{
			{TransactionType: "refund", Amount: 0.20999999999999375, PaymentMethodID: mirelaCard},
			{TransactionType: "refund", Amount: 5, PaymentMethodID: creditCard},
			{TransactionType: "refund", Amount: 0.111, PaymentMethodID: mirelaCard},
		}, got.PaymentHistory[3:])
		require.Equal(t, 86.32, b.balance(t, mirela, mirelaCard), "86.21 after the first")
	})

	t.Run("ChecksInOrder", func(t *testing.T) {
		t.Parallel()
		b := setupRetail(t)
		requireRefused(t, b.bundle, "cancel_pending_order", retail.CancelIn{OrderIn: retail.OrderIn{OrderID: "#none"}, Reason: "?"}, "order not found")
		requireRefused(t, b.bundle, "cancel_pending_order", retail.CancelIn{OrderIn: retail.OrderIn{OrderID: twoPads}, Reason: "?"}, "non-pending order cannot be cancelled")
		requireRefused(t, b.bundle, "cancel_pending_order", retail.CancelIn{OrderIn: retail.OrderIn{OrderID: barrel}, Reason: "?"}, "invalid reason")
		b.edit(t, barrel, "{payment_history,0,payment_method_id}", `"gift_card_gone"`)
		requireRefused(t, b.bundle, "cancel_pending_order", retail.CancelIn{OrderIn: retail.OrderIn{OrderID: barrel}, Reason: "no longer needed"}, "'gift_card_gone'")
	})

	// One of many at once cancels, and the card has its money back once.
	t.Run("Concurrently", func(t *testing.T) {
		t.Parallel()
		b := setupRetail(t)
		var all []func() error
		for range 4 {
			all = append(all, func() error {
				_, _ = callTool[retail.Order](t.Context(), b.bundle, "cancel_pending_order", retail.CancelIn{OrderIn: retail.OrderIn{OrderID: "#K1002"}, Reason: "ordered by mistake"})
				return nil
			})
		}
		requireTogether(t, all...)
		require.Equal(t, 160.99, b.balance(t, mirela, mirelaCard))
		require.Equal(t, 1, b.Effects(t))
	})
}

func TestModifyPayment(t *testing.T) {
	t.Parallel()
	b := setupRetail(t)
	to := func(order, method string) retail.PaymentIn {
		return retail.PaymentIn{OrderIn: retail.OrderIn{OrderID: order}, PaymentMethodID: method}
	}
	requireRefused(t, b.bundle, "modify_pending_order_payment", to("#none", "x"), "order not found")
	requireRefused(t, b.bundle, "modify_pending_order_payment", to(twoPads, "x"), "non-pending order cannot be modified")
	requireRefused(t, b.bundle, "modify_pending_order_payment", to("#K1002", "x"), "payment method not found")
	requireRefused(t, b.bundle, "modify_pending_order_payment", to("#K1002", mirelaCard), "the new payment method should be different from the current one")
	requireRefused(t, b.bundle, "modify_pending_order_payment", to("#K1003", smallCard), "insufficient gift card balance to pay for the order")

	got, err := callTool[retail.Order](t.Context(), b.bundle, "modify_pending_order_payment", to("#K1002", creditCard))
	require.NoError(t, err)
	require.Equal(t, "pending", got.Status)
	require.Equal(t, []retail.Payment{
		{TransactionType: "payment", Amount: 74.99, PaymentMethodID: mirelaCard},
		{TransactionType: "payment", Amount: 74.99, PaymentMethodID: creditCard},
		{TransactionType: "refund", Amount: 74.99, PaymentMethodID: mirelaCard},
	}, got.PaymentHistory)
	require.Equal(t, 160.99, b.balance(t, mirela, mirelaCard))
	requireRefused(t, b.bundle, "modify_pending_order_payment", to("#K1002", mirelaCard), "there should be exactly one payment for a pending order")

	b.edit(t, "#K1003", "{payment_history,0,transaction_type}", `"refund"`)
	requireRefused(t, b.bundle, "modify_pending_order_payment", to("#K1003", largeCard), "there should be exactly one payment for a pending order")
}

// Two orders of one user take from one gift card at once: nothing is lost.
func TestConcurrentRetailChargesAddUp(t *testing.T) {
	t.Parallel()
	b := setupRetail(t)
	b.edit(t, twoPads, "{status}", `"pending"`)
	b.edit(t, mixed, "{status}", `"pending"`)
	var all []func() error
	for _, in := range []retail.SwapIn{
		{OrderIn: retail.OrderIn{OrderID: twoPads}, ItemIDs: []string{cork}, NewItemIDs: []string{felt}, PaymentMethodID: largeCard},
		{OrderIn: retail.OrderIn{OrderID: mixed}, ItemIDs: []string{moss90}, NewItemIDs: []string{slate120}, PaymentMethodID: largeCard},
		{OrderIn: retail.OrderIn{OrderID: "#K1003"}, ItemIDs: []string{drawers12}, NewItemIDs: []string{drawers24}, PaymentMethodID: largeCard},
	} {
		all = append(all, func() error {
			_, err := callTool[retail.Order](t.Context(), b.bundle, "modify_pending_order_items", in)
			return err
		})
	}
	requireTogether(t, all...)
	require.Equal(t, 246.26, b.balance(t, pike, largeCard)) // 310.40 + 1.45 - 19.74 - 45.85
}
