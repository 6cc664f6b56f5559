package retail_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/retail"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refused(t, b, retail.ModifyOrderAddress, retail.OrderAddressIn{OrderID: "#none"}, "order not found")
	refused(t, b, retail.ModifyOrderAddress, retail.OrderAddressIn{OrderID: mixed}, "non-pending order cannot be modified")
	refused(t, b, retail.ModifyUserAddress, retail.UserAddressIn{UserID: "nobody"}, "user not found")

	find := retail.FindByNameZipIn{FirstName: "MIRELA", LastName: "fenn", Zip: "30517"}
	id, err := call(t.Context(), b, retail.FindByNameZip, find)
	require.NoError(t, err)
	require.Equal(t, mirela, *id)

	user, err := call(t.Context(), b, retail.ModifyUserAddress, retail.UserAddressIn{UserID: mirela, Address1: "<b> & co", Zip: "1"})
	require.NoError(t, err)
	require.Equal(t, retail.Address{Address1: "<b> & co", Zip: "1"}, user.Address)

	// The look-up follows the document.
	refused(t, b, retail.FindByNameZip, find, "user not found")
	find.Zip = "1"
	_, err = call(t.Context(), b, retail.FindByNameZip, find)
	require.NoError(t, err)
}

func TestReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, err := call(t.Context(), b, retail.FindByEmail, retail.FindByEmailIn{Email: "MIRELA.fenn@post.example"})
	require.NoError(t, err)
	require.Equal(t, mirela, *id)
	types, err := call(t.Context(), b, retail.ProductTypes, retail.ProductTypesIn{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Rain Barrel": "90011", "Seed Drawer": "90012", "Kneeling Pad": "90013"}, types)

	refused(t, b, retail.FindByEmail, retail.FindByEmailIn{Email: "x"}, "user not found")
	refused(t, b, retail.UserDetails, retail.UserDetailsIn{UserID: "x"}, "user not found")
	refused(t, b, retail.OrderDetails, retail.OrderDetailsIn{OrderID: "x"}, "order not found")
	refused(t, b, retail.ProductDetails, retail.ProductDetailsIn{ProductID: "x"}, "product not found")
}
