package world_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/airline"
)

// other is R7KQ2A (two passengers, economy, QX101 on the 20th at 140) with
// other flights.
func other(cabin, paymentID string, flights ...airline.FlightChoice) airline.FlightsIn {
	return airline.FlightsIn{ReservationIn: airline.ReservationIn{ReservationID: "R7KQ2A"}, Cabin: cabin, Flights: flights, PaymentID: paymentID}
}

func choice(number, date string) airline.FlightChoice {
	return airline.FlightChoice{FlightNumber: number, Date: date}
}

func TestUpdateFlights(t *testing.T) {
	t.Parallel()

	t.Run("NegativeTotalIsPutOnTheGiftCard", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		got, err := callTool[airline.Reservation](t.Context(), b.bundle, "update_reservation_flights", other("basic_economy", inesGift, choice("QX101", "2024-05-20")))
		require.NoError(t, err)
		require.Equal(t, airline.Payment{PaymentID: inesGift, Amount: -164}, got.PaymentHistory[1])
		require.Equal(t, "economy", got.Cabin)
		require.Equal(t, 58.0, got.Flights[0].Price)
		require.Equal(t, 564.0, *b.user(t, ines).PaymentMethods[inesGift].Amount)
	})

	t.Run("SameFlightsChangeNothing", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		got, err := callTool[airline.Reservation](t.Context(), b.bundle, "update_reservation_flights", other("economy", inesCredit, choice("QX101", "2024-05-20")))
		require.NoError(t, err)
		require.Len(t, got.PaymentHistory, 1)
		require.Empty(t, b.Changed(t))
		require.Equal(t, 1, b.Effects(t))
	})

	t.Run("KeptFlightIsNotChecked", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		_, err := b.Pool.Exec(t.Context(), `UPDATE airline_flights SET doc = jsonb_set(doc::jsonb, '{dates}', '{}') WHERE flight_number = 'QX101'`)
		require.NoError(t, err)
		_, err = callTool[airline.Reservation](t.Context(), b.bundle, "update_reservation_flights", other("economy", inesCredit, choice("QX101", "2024-05-20")))
		require.NoError(t, err)
		requireRefused(t, b.bundle, "update_reservation_flights", other("business", inesCredit, choice("QX101", "2024-05-20")),
			"flight QX101 not found on date 2024-05-20")
	})

	t.Run("TakesWholeFlightsAndIgnoresWhatTheyClaim", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		text, err := callTool[json.RawMessage](t.Context(), b.bundle, "update_reservation_flights",
			json.RawMessage(`{"reservation_id":"R7KQ2A","cabin":"economy","payment_id":"gift_card_7001",
			"flights":[{"flight_number":"QX101","date":"2024-05-22","origin":"XXX","destination":null,"price":1}]}`))
		require.NoError(t, err)
		require.Contains(t, string(text), `"flights":[{"flight_number":"QX101","date":"2024-05-22","price":171,"origin":"KVL","destination":"ODN"}]`)
	})

	t.Run("NoFlightsAreRefundedWhole", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		got, err := callTool[airline.Reservation](t.Context(), b.bundle, "update_reservation_flights", other("economy", inesCredit))
		require.NoError(t, err)
		require.Equal(t, -280.0, got.PaymentHistory[1].Amount)
		require.NotNil(t, got.Flights)
		require.Empty(t, got.Flights)
	})

	t.Run("ChecksInOrder", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		unknown := other("economy", "x", choice("QX000", "2024-05-20"))
		unknown.ReservationID = "NONE"
		requireRefused(t, b.bundle, "update_reservation_flights", unknown, "reservation not found")
		requireRefused(t, b.bundle, "update_reservation_flights", other("economy", "x", choice("QX000", "2024-05-20")), "flight QX000 not found")
		requireRefused(t, b.bundle, "update_reservation_flights", other("economy", "x", choice("QX102", "2024-05-22")), "flight QX102 not available on date 2024-05-22")
		requireRefused(t, b.bundle, "update_reservation_flights", other("economy", "x", choice("QX202", "2024-05-21")), "not enough seats on flight QX202")
		requireRefused(t, b.bundle, "update_reservation_flights", other("economy", "x", choice("QX101", "2024-05-22")), "payment method not found")
		requireRefused(t, b.bundle, "update_reservation_flights", other("economy", inesCertificate, choice("QX101", "2024-05-22")), "certificate cannot be used to update reservation")
		requireRefused(t, b.bundle, "update_reservation_flights", other("business", inesGift, choice("QX101", "2024-05-22"), choice("QX202", "2024-05-21")), "gift card balance is not enough")
	})
}

func TestUpdateBaggages(t *testing.T) {
	t.Parallel()
	b := setupAirline(t)
	more := airline.BaggagesIn{ReservationIn: airline.ReservationIn{ReservationID: "R7KQ2A"}, TotalBaggages: 9, NonfreeBaggages: 8, PaymentID: inesGift}
	got, err := callTool[airline.Reservation](t.Context(), b.bundle, "update_reservation_baggages", more)
	require.NoError(t, err)
	require.Equal(t, airline.Payment{PaymentID: inesGift, Amount: 400}, got.PaymentHistory[1], "exactly what is left")

	fewer := airline.BaggagesIn{ReservationIn: airline.ReservationIn{ReservationID: "R7KQ2A"}, TotalBaggages: 1, NonfreeBaggages: 0, PaymentID: inesGift}
	got, err = callTool[airline.Reservation](t.Context(), b.bundle, "update_reservation_baggages", fewer)
	require.NoError(t, err)
	require.Len(t, got.PaymentHistory, 2, "nothing is paid back")
	require.Zero(t, *b.user(t, ines).PaymentMethods[inesGift].Amount)

	requireRefused(t, b.bundle, "update_reservation_baggages", more, "gift card balance is not enough")
	more.PaymentID = inesCertificate
	requireRefused(t, b.bundle, "update_reservation_baggages", more, "certificate cannot be used to update reservation")
	more.ReservationID = "NONE"
	requireRefused(t, b.bundle, "update_reservation_baggages", more, "reservation not found")
}

// Two reservations of one user charge one gift card at once: nothing is lost.
func TestConcurrentAirlineChargesAddUp(t *testing.T) {
	t.Parallel()
	b := setupAirline(t)
	var all []func() error
	for _, id := range []string{"M3PL9Z", "T5WD1C", "M3PL9Z", "T5WD1C"} {
		all = append(all, func() error {
			_, err := callTool[airline.Reservation](t.Context(), b.bundle, "update_reservation_baggages", airline.BaggagesIn{
				ReservationIn: airline.ReservationIn{ReservationID: id}, TotalBaggages: 3, NonfreeBaggages: 1, PaymentID: "credit_card_8001",
			})
			return err
		})
		all = append(all, func() error {
			_, err := callTool[*string](t.Context(), b.bundle, "send_certificate", airline.CertificateIn{UserID: tobin})
			return err
		})
	}
	requireTogether(t, all...)
	require.Len(t, b.user(t, tobin).PaymentMethods, 5, "three certificates, the fourth is refused")
	require.Equal(t, 8, b.Effects(t))
}

func TestUpdatePassengers(t *testing.T) {
	t.Parallel()
	b := setupAirline(t)
	in := airline.PassengersIn{ReservationIn: airline.ReservationIn{ReservationID: "R7KQ2A"}, Passengers: make([]airline.Passenger, 1)}
	requireRefused(t, b.bundle, "update_reservation_passengers", in, "number of passengers does not match")
	in.ReservationID = "NONE"
	requireRefused(t, b.bundle, "update_reservation_passengers", in, "reservation not found")
}
