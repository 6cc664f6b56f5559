package airline

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// cancel notes a refund for every payment so far. A reservation that is cancelled already is
// cancelled again: its refunds are mirrored too.
func cancel(_ context.Context, _ pgx.Tx, r *Reservation, _ ReservationIn) error {
	for _, payment := range r.PaymentHistory {
		r.PaymentHistory = append(r.PaymentHistory, Payment{PaymentID: payment.PaymentID, Amount: -payment.Amount})
	}
	r.Status = "cancelled"
	return nil
}

// PassengersIn are the arguments of update_reservation_passengers.
type PassengersIn struct {
	ReservationIn
	Passengers []Passenger `json:"passengers"`
}

// updatePassengers replaces the passengers by as many others.
func updatePassengers(_ context.Context, _ pgx.Tx, r *Reservation, in PassengersIn) error {
	if len(in.Passengers) != len(r.Passengers) {
		return kit.Refuse("number of passengers does not match")
	}
	r.Passengers = in.Passengers
	return nil
}

// BaggagesIn are the arguments of update_reservation_baggages.
type BaggagesIn struct {
	ReservationIn
	TotalBaggages   int    `json:"total_baggages"`
	NonfreeBaggages int    `json:"nonfree_baggages"`
	PaymentID       string `json:"payment_id"`
}

// updateBaggages sets both counts and charges for pieces that are added and not free. Nothing is
// paid back for fewer.
func updateBaggages(ctx context.Context, tx pgx.Tx, r *Reservation, in BaggagesIn) error {
	added := max(0, in.NonfreeBaggages-r.NonfreeBaggages)
	if err := payUpdate(ctx, tx, r, in.PaymentID, baggagePrice*float64(added)); err != nil {
		return err
	}
	r.TotalBaggages, r.NonfreeBaggages = in.TotalBaggages, in.NonfreeBaggages
	return nil
}

// FlightsIn are the arguments of update_reservation_flights.
type FlightsIn struct {
	ReservationIn
	Cabin     string         `json:"cabin"`
	Flights   []FlightChoice `json:"flights"`
	PaymentID string         `json:"payment_id"`
}

// updateFlights replaces a reservation's flights and settles the difference. The reservation
// keeps its cabin even where another one was priced.
func updateFlights(ctx context.Context, tx pgx.Tx, r *Reservation, in FlightsIn) (err error) {
	passengers := float64(len(r.Passengers))
	flights := []BookedFlight{}
	var difference, before float64
	for _, choice := range in.Flights {
		flight, kept := keep(r, choice, in.Cabin)
		if !kept {
			if flight, err = book(ctx, tx, choice, in.Cabin, len(r.Passengers)); err != nil {
				return err
			}
		}
		flights = append(flights, flight)
		difference += flight.Price * passengers
	}
	for _, flight := range r.Flights {
		before += flight.Price
	}
	difference -= before * passengers
	if err := payUpdate(ctx, tx, r, in.PaymentID, difference); err != nil {
		return err
	}
	r.Flights = flights
	return nil
}

// keep finds a flight that the reservation has already, in the same cabin: it stays at its old
// price, whatever it would cost now.
func keep(r *Reservation, choice FlightChoice, cabin string) (BookedFlight, bool) {
	at := slices.IndexFunc(r.Flights, func(flight BookedFlight) bool {
		return cabin == r.Cabin && flight.FlightNumber == choice.FlightNumber && flight.Date == choice.Date
	})
	if at < 0 {
		return BookedFlight{}, false
	}
	return r.Flights[at], true
}

// payUpdate charges the price of a change to a method of the reservation's user and notes it; a
// negative price is a refund. It stores the user but not the reservation.
func payUpdate(ctx context.Context, tx pgx.Tx, r *Reservation, paymentID string, price float64) error {
	user, err := users.LockOwner(ctx, tx, r.UserID, "reservation "+r.ReservationID)
	if err != nil {
		return err
	}
	method, ok := user.PaymentMethods[paymentID]
	switch {
	case !ok:
		return kit.Refuse("payment method not found")
	case method.Source == sourceCertificate:
		return kit.Refuse("certificate cannot be used to update reservation")
	case !method.covers(price):
		return kit.Refuse("gift card balance is not enough")
	case price == 0:
		return nil
	}
	r.PaymentHistory = append(r.PaymentHistory, Payment{PaymentID: paymentID, Amount: price})
	if method.Source != sourceGiftCard {
		return nil
	}
	method.charge(price)
	return users.Save(ctx, tx, r.UserID, user)
}
