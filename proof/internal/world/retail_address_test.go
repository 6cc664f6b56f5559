package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/retail"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	b := setupRetail(t)
	requireRefused(t, b.bundle, "modify_pending_order_address", retail.OrderAddressIn{OrderIn: retail.OrderIn{OrderID: "#none"}}, "order not found")
	requireRefused(t, b.bundle, "modify_pending_order_address", retail.OrderAddressIn{OrderIn: retail.OrderIn{OrderID: mixed}}, "non-pending order cannot be modified")
	requireRefused(t, b.bundle, "modify_user_address", retail.UserAddressIn{UserIn: retail.UserIn{UserID: "nobody"}}, "user not found")

	find := retail.NameZipIn{FirstName: "MIRELA", LastName: "fenn", Zip: "30517"}
	id, err := callTool[string](t.Context(), b.bundle, "find_user_id_by_name_zip", find)
	require.NoError(t, err)
	require.Equal(t, mirela, id)

	user, err := callTool[retail.User](t.Context(), b.bundle, "modify_user_address", retail.UserAddressIn{UserIn: retail.UserIn{UserID: mirela}, Address: retail.Address{Address1: "<b> & co", Zip: "1"}})
	require.NoError(t, err)
	require.Equal(t, retail.Address{Address1: "<b> & co", Zip: "1"}, user.Address)

	// The look-up follows the document.
	requireRefused(t, b.bundle, "find_user_id_by_name_zip", find, "user not found")
	find.Zip = "1"
	_, err = callTool[string](t.Context(), b.bundle, "find_user_id_by_name_zip", find)
	require.NoError(t, err)
}

func TestReads(t *testing.T) {
	t.Parallel()
	b := setupRetail(t)
	id, err := callTool[string](t.Context(), b.bundle, "find_user_id_by_email", retail.EmailIn{Email: "MIRELA.fenn@post.example"})
	require.NoError(t, err)
	require.Equal(t, mirela, id)
	types, err := callTool[map[string]string](t.Context(), b.bundle, "list_all_product_types", struct{}{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Rain Barrel": "90011", "Seed Drawer": "90012", "Kneeling Pad": "90013"}, types)

	requireRefused(t, b.bundle, "find_user_id_by_email", retail.EmailIn{Email: "x"}, "user not found")
	requireRefused(t, b.bundle, "get_user_details", retail.UserIn{UserID: "x"}, "user not found")
	requireRefused(t, b.bundle, "get_order_details", retail.OrderIn{OrderID: "x"}, "order not found")
	requireRefused(t, b.bundle, "get_product_details", retail.ProductIn{ProductID: "x"}, "product not found")
}
