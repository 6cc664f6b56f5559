package retail_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/retail"
	"github.com/tooldedup/dedup/proof/internal/world/worldtest"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	worldtest.Refused(t, b.World, "modify_pending_order_address", retail.OrderAddressIn{OrderIn: retail.OrderIn{OrderID: "#none"}}, "order not found")
	worldtest.Refused(t, b.World, "modify_pending_order_address", retail.OrderAddressIn{OrderIn: retail.OrderIn{OrderID: mixed}}, "non-pending order cannot be modified")
	worldtest.Refused(t, b.World, "modify_user_address", retail.UserAddressIn{UserIn: retail.UserIn{UserID: "nobody"}}, "user not found")

	find := retail.NameZipIn{FirstName: "MIRELA", LastName: "fenn", Zip: "30517"}
	id, err := worldtest.Call[string](t.Context(), b.World, "find_user_id_by_name_zip", find)
	require.NoError(t, err)
	require.Equal(t, mirela, id)

	user, err := worldtest.Call[retail.User](t.Context(), b.World, "modify_user_address", retail.UserAddressIn{UserIn: retail.UserIn{UserID: mirela}, Address: retail.Address{Address1: "<b> & co", Zip: "1"}})
	require.NoError(t, err)
	require.Equal(t, retail.Address{Address1: "<b> & co", Zip: "1"}, user.Address)

	// The look-up follows the document.
	worldtest.Refused(t, b.World, "find_user_id_by_name_zip", find, "user not found")
	find.Zip = "1"
	_, err = worldtest.Call[string](t.Context(), b.World, "find_user_id_by_name_zip", find)
	require.NoError(t, err)
}

func TestReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, err := worldtest.Call[string](t.Context(), b.World, "find_user_id_by_email", retail.EmailIn{Email: "MIRELA.fenn@post.example"})
	require.NoError(t, err)
	require.Equal(t, mirela, id)
	types, err := worldtest.Call[map[string]string](t.Context(), b.World, "list_all_product_types", struct{}{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Rain Barrel": "90011", "Seed Drawer": "90012", "Kneeling Pad": "90013"}, types)

	worldtest.Refused(t, b.World, "find_user_id_by_email", retail.EmailIn{Email: "x"}, "user not found")
	worldtest.Refused(t, b.World, "get_user_details", retail.UserIn{UserID: "x"}, "user not found")
	worldtest.Refused(t, b.World, "get_order_details", retail.OrderIn{OrderID: "x"}, "order not found")
	worldtest.Refused(t, b.World, "get_product_details", retail.ProductIn{ProductID: "x"}, "product not found")
}
