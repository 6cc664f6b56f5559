package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/airline"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

func TestCancelReservationTwiceMirrorsTheMirror(t *testing.T) {
	t.Parallel()
	b := setupAirline(t)
	in := airline.ReservationIn{ReservationID: "T5WD1C"}
	_, err := callTool[airline.Reservation](t.Context(), b.bundle, "cancel_reservation", in)
	require.NoError(t, err)
	got, err := callTool[airline.Reservation](t.Context(), b.bundle, "cancel_reservation", in)
	require.NoError(t, err)

	var amounts []float64
	for _, payment := range got.PaymentHistory {
		amounts = append(amounts, payment.Amount)
	}
	require.Equal(t, []float64{61, -61, -61, 61}, amounts)
	require.Equal(t, 90.0, *b.user(t, tobin).PaymentMethods["gift_card_8002"].Amount, "no money goes back")
	require.Equal(t, 2, b.Effects(t))
	requireRefused(t, b.bundle, "cancel_reservation", airline.ReservationIn{ReservationID: "NONE"}, "reservation not found")
}

func TestSendCertificate(t *testing.T) {
	t.Parallel()
	b := setupAirline(t)
	in := airline.CertificateIn{UserID: tobin, Amount: kit.Number{Value: 100, Fraction: true}}
	for _, id := range []string{"certificate_3221322", "certificate_3221323", "certificate_3221324"} {
		got, err := callTool[*string](t.Context(), b.bundle, "send_certificate", in)
		require.NoError(t, err)
		require.Equal(t, "Certificate "+id+" added to user "+tobin+" with amount 100.0.", *got)
	}
	before := b.Changed(t)
	got, err := callTool[*string](t.Context(), b.bundle, "send_certificate", in)
	require.NoError(t, err)
	require.Nil(t, got)
	require.Equal(t, before, b.Changed(t))
	require.Equal(t, 4, b.Effects(t), "a run to the end is in the log, also without a certificate")

	requireRefused(t, b.bundle, "send_certificate", airline.CertificateIn{UserID: "nobody"}, "user not found")
}

// A document that names a user who is not there is no answer to the agent.
func TestMissingOwnerIsNoRefusal(t *testing.T) {
	t.Parallel()
	b := setupAirline(t)
	_, err := b.Pool.Exec(t.Context(), `DELETE FROM airline_users WHERE user_id = $1`, tobin)
	require.NoError(t, err)
	_, err = callTool[airline.Reservation](t.Context(), b.bundle, "update_reservation_baggages", airline.BaggagesIn{ReservationIn: airline.ReservationIn{ReservationID: "T5WD1C"}})
	require.EqualError(t, err, "user "+tobin+" of reservation T5WD1C is missing")
}
