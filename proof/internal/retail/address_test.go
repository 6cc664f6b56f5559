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
	worldtest.Refused(t, b.World, retail.ModifyOrderAddress, retail.OrderAddressIn{OrderID: "#none"}, "order not found")
	worldtest.Refused(t, b.World, retail.ModifyOrderAddress, retail.OrderAddressIn{OrderID: mixed}, "non-pending order cannot be modified")
	worldtest.Refused(t, b.World, retail.ModifyUserAddress, retail.UserAddressIn{UserID: "nobody"}, "user not found")

	find := retail.FindByNameZipIn{FirstName: "MIRELA", LastName: "fenn", Zip: "30517"}
	id, err := worldtest.Call(t.Context(), b.World, retail.FindByNameZip, find)
	require.NoError(t, err)
	require.Equal(t, mirela, *id)

	user, err := worldtest.Call(t.Context(), b.World, retail.ModifyUserAddress, retail.UserAddressIn{UserID: mirela, Address1: "<b> & co", Zip: "1"})
	require.NoError(t, err)
	require.Equal(t, retail.Address{Address1: "<b> & co", Zip: "1"}, user.Address)

	// The look-up follows the document.
	worldtest.Refused(t, b.World, retail.FindByNameZip, find, "user not found")
	find.Zip = "1"
	_, err = worldtest.Call(t.Context(), b.World, retail.FindByNameZip, find)
	require.NoError(t, err)
}

func TestReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, err := worldtest.Call(t.Context(), b.World, retail.FindByEmail, retail.FindByEmailIn{Email: "MIRELA.fenn@post.example"})
	require.NoError(t, err)
	require.Equal(t, mirela, *id)
	types, err := worldtest.Call(t.Context(), b.World, retail.ProductTypes, retail.ProductTypesIn{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Rain Barrel": "90011", "Seed Drawer": "90012", "Kneeling Pad": "90013"}, types)

	worldtest.Refused(t, b.World, retail.FindByEmail, retail.FindByEmailIn{Email: "x"}, "user not found")
	worldtest.Refused(t, b.World, retail.UserDetails, retail.UserDetailsIn{UserID: "x"}, "user not found")
	worldtest.Refused(t, b.World, retail.OrderDetails, retail.OrderDetailsIn{OrderID: "x"}, "order not found")
	worldtest.Refused(t, b.World, retail.ProductDetails, retail.ProductDetailsIn{ProductID: "x"}, "product not found")
}
