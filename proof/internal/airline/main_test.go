package airline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/proof/internal/airline"
	"github.com/tooldedup/dedup/proof/internal/world/worldtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Ids of the small recording.
const (
	ines  = "ines_marwick_204" // gift card of 400, credit card, certificate of 150
	tobin = "tobin_easterly_318"

	inesGift, inesCredit, inesCertificate = "gift_card_7001", "credit_card_7002", "certificate_7003"
)

// bundle is a world of one test.
type bundle struct{ *worldtest.World }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{worldtest.New(t, airline.Domain)}
}

func (b *bundle) user(t *testing.T, id string) airline.User {
	t.Helper()
	user, err := worldtest.Call[airline.User](t.Context(), b.World, "get_user_details", airline.UserIn{UserID: id})
	require.NoError(t, err)
	return user
}
