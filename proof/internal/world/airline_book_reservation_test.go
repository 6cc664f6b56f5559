package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/airline"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// booking is one passenger on one flight for 140, paid by credit card.
func booking() airline.BookIn {
	return airline.BookIn{
		UserID: ines, Origin: "KVL", Destination: "ODN", FlightType: "one_way", Cabin: "economy",
		Flights:        []airline.FlightChoice{{FlightNumber: "QX101", Date: "2024-05-20"}},
		Passengers:     []airline.Passenger{{FirstName: "Ines", LastName: "Marwick", DOB: "1984-02-09"}},
		PaymentMethods: []airline.PaymentIn{pay(inesCredit, 140)},
		Insurance:      "no",
	}
}

func pay(id string, amount float64) airline.PaymentIn {
	return airline.PaymentIn{PaymentID: id, Amount: kit.Number{Value: amount}}
}

func TestBookReservation(t *testing.T) {
	t.Parallel()

	t.Run("ThirdAndFourthOverwriteOne", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		for _, want := range []string{"HATHAT", "HATHAU", "HATHAV", "HATHAV"} {
			got, err := callTool[airline.Reservation](t.Context(), b.bundle, "book_reservation", booking())
			require.NoError(t, err)
			require.Equal(t, want, got.ReservationID)
		}
		require.Equal(t, []string{"R7KQ2A", "HATHAT", "HATHAU", "HATHAV", "HATHAV"}, b.user(t, ines).Reservations)
		require.Len(t, b.Changed(t)["reservations"], 3)
		require.Equal(t, 4, b.Effects(t))
	})

	t.Run("UsesUpACertificateAndChargesAGiftCard", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		in := booking()
		in.PaymentMethods = []airline.PaymentIn{pay(inesCertificate, 40), pay(inesGift, 60), pay(inesGift, 20), pay(inesCredit, 20)}
		got, err := callTool[airline.Reservation](t.Context(), b.bundle, "book_reservation", in)
		require.NoError(t, err)
		require.Equal(t, []airline.Payment{
			{PaymentID: inesCertificate, Amount: 40}, {PaymentID: inesGift, Amount: 60},
			{PaymentID: inesGift, Amount: 20}, {PaymentID: inesCredit, Amount: 20},
		}, got.PaymentHistory)
		methods := b.user(t, ines).PaymentMethods
		require.NotContains(t, methods, inesCertificate)
		require.Equal(t, 320.0, *methods[inesGift].Amount)
		require.Nil(t, methods[inesCredit].Amount)
	})

	t.Run("ChecksInOrder", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		for _, tt := range []struct {
			change  func(in *airline.BookIn)
			message string
		}{
			{func(in *airline.BookIn) { in.UserID = "nobody"; in.Flights[0].FlightNumber = "QX000" }, "user not found"},
			{func(in *airline.BookIn) { in.Flights[0].FlightNumber = "QX000"; in.PaymentMethods = nil }, "flight QX000 not found"},
			{func(in *airline.BookIn) { in.Flights[0].Date = "2024-06-01" }, "flight QX101 not found on date 2024-06-01"},
			{func(in *airline.BookIn) { in.Flights[0].Date = "2024-05-14" }, "flight QX101 not available on date 2024-05-14"},
			{func(in *airline.BookIn) { in.Cabin = "hold" }, "'hold'"},
			{func(in *airline.BookIn) { in.Passengers = make([]airline.Passenger, 10) }, "not enough seats on flight QX101"},
			{func(in *airline.BookIn) { in.PaymentMethods[0].PaymentID = "x" }, "payment method x not found"},
			{func(in *airline.BookIn) { in.PaymentMethods = []airline.PaymentIn{pay(inesCertificate, 151)} }, "not enough balance in payment method " + inesCertificate},
			{func(in *airline.BookIn) { in.PaymentMethods = []airline.PaymentIn{pay(inesGift, 401), pay("x", 1)} }, "not enough balance in payment method " + inesGift},
			{func(in *airline.BookIn) { in.PaymentMethods = nil }, "payment amount does not add up, total price is 140, but paid 0"},
			{func(in *airline.BookIn) {
				in.PaymentMethods[0].Amount = kit.Number{Value: 139.5, Fraction: true}
				in.Insurance, in.NonfreeBaggages = "yes", 2
			}, "payment amount does not add up, total price is 270, but paid 139.5"},
		} {
			in := booking()
			tt.change(&in)
			requireRefused(t, b.bundle, "book_reservation", in, tt.message)
		}
		require.Zero(t, b.Effects(t))
	})

	t.Run("ConcurrentBookingsGetTheirOwnNumbers", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		other := booking()
		other.UserID, other.PaymentMethods = tobin, []airline.PaymentIn{pay("credit_card_8001", 140)}
		numbers := make([]string, 3)
		var all []func() error
		for i, in := range []airline.BookIn{booking(), other, booking()} {
			all = append(all, func() error {
				got, err := callTool[airline.Reservation](t.Context(), b.bundle, "book_reservation", in)
				if err == nil {
					numbers[i] = got.ReservationID
				}
				return err
			})
		}
		requireTogether(t, all...)
		require.ElementsMatch(t, []string{"HATHAT", "HATHAU", "HATHAV"}, numbers)
	})

	t.Run("ConcurrentOverwritesAndUpdates", func(t *testing.T) {
		t.Parallel()
		b := setupAirline(t)
		for range 3 {
			_, err := callTool[airline.Reservation](t.Context(), b.bundle, "book_reservation", booking())
			require.NoError(t, err)
		}
		// A booking locks HATHAV before its user, as an update does.
		var all []func() error
		for range 2 {
			all = append(all, func() error {
				_, err := callTool[airline.Reservation](t.Context(), b.bundle, "book_reservation", booking())
				return err
			})
			all = append(all, func() error {
				_, err := callTool[airline.Reservation](t.Context(), b.bundle, "update_reservation_baggages", airline.BaggagesIn{
					ReservationIn: airline.ReservationIn{ReservationID: "HATHAV"}, TotalBaggages: 1, NonfreeBaggages: 1, PaymentID: inesGift,
				})
				return err
			})
		}
		requireTogether(t, all...)
		require.Equal(t, 7, b.Effects(t))
	})
}
