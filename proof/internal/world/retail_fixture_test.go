package world_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/retail"
)

// Ids of the small recording.
const (
	mirela = "mirela_fenn_512"  // gift_card_5101 of 86, credit_card_5102
	pike   = "auberon_pike_660" // paypal_6601, gift_card_6602 of 310.4, gift_card_6603 of 12
)

// retailBundle is the shop's world of one test.
type retailBundle struct{ *bundle }

func setupRetail(t *testing.T) *retailBundle {
	t.Helper()
	return &retailBundle{newBundle(t, retail.Domain)}
}

func (b *retailBundle) user(t *testing.T, id string) retail.User {
	t.Helper()
	user, err := callTool[retail.User](t.Context(), b.bundle, "get_user_details", retail.UserIn{UserID: id})
	require.NoError(t, err)
	return user
}

// balance is what a gift card holds.
func (b *retailBundle) balance(t *testing.T, user, card string) float64 {
	t.Helper()
	return *b.user(t, user).PaymentMethods[card].Balance
}

// edit replaces a part of an order's document by other JSON.
func (b *retailBundle) edit(t *testing.T, order, path, value string) {
	t.Helper()
	_, err := b.Pool.Exec(t.Context(), `
		UPDATE retail_orders
		SET doc = jsonb_set(doc::jsonb, $2::text[], $3::jsonb)::json
		WHERE order_id = $1`, order, path, value)
	require.NoError(t, err)
}

// orderField is one value of an order's document.
func (b *retailBundle) orderField(t *testing.T, id, field string) json.RawMessage {
	t.Helper()
	text, err := callTool[json.RawMessage](t.Context(), b.bundle, "get_order_details", retail.OrderIn{OrderID: id})
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &fields))
	return fields[field]
}
