package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/airline"
)

// Ids of the small recording.
const (
	ines  = "ines_marwick_204" // gift card of 400, credit card, certificate of 150
	tobin = "tobin_easterly_318"

	inesGift, inesCredit, inesCertificate = "gift_card_7001", "credit_card_7002", "certificate_7003"
)

// airlineBundle is the airline's world of one test.
type airlineBundle struct{ *bundle }

func setupAirline(t *testing.T) *airlineBundle {
	t.Helper()
	return &airlineBundle{newBundle(t, airline.Domain)}
}

func (b *airlineBundle) user(t *testing.T, id string) airline.User {
	t.Helper()
	user, err := callTool[airline.User](t.Context(), b.bundle, "get_user_details", airline.UserIn{UserID: id})
	require.NoError(t, err)
	return user
}
