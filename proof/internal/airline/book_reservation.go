package airline

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// What the airline takes on top of the fares.
const (
	insurancePrice = 30 // a passenger
	baggagePrice   = 50 // a piece that is not free
)

// bookedAt is the clock of the recorded world, which stands still.
const bookedAt = "2024-05-15T15:00:00"

// BookIn are the arguments of book_reservation.
type BookIn struct {
	UserID          string         `json:"user_id"`
	Origin          string         `json:"origin"`
	Destination     string         `json:"destination"`
	FlightType      string         `json:"flight_type"`
	Cabin           string         `json:"cabin"`
	Flights         []FlightChoice `json:"flights"`
	Passengers      []Passenger    `json:"passengers"`
	PaymentMethods  []PaymentIn    `json:"payment_methods"`
	TotalBaggages   int            `json:"total_baggages"`
	NonfreeBaggages int            `json:"nonfree_baggages"`
	Insurance       string         `json:"insurance"`
}

// PaymentIn is a part of the price and the method that pays it.
type PaymentIn struct {
	PaymentID string     `json:"payment_id"`
	Amount    kit.Number `json:"amount"`
}

// bookReservation books flights and pays for them with methods of the user.
// Seats are counted elsewhere and are not reduced.
func bookReservation(ctx context.Context, tx pgx.Tx, in BookIn) (*Reservation, error) {
	if err := lockNumbering(ctx, tx); err != nil {
		return nil, err
	}
	user, err := users.Lock(ctx, tx, in.UserID)
	if err != nil {
		return nil, err
	}
	flights, total, err := priceBooking(ctx, tx, in)
	if err != nil {
		return nil, err
	}
	if err := checkBookingPayments(user, in.PaymentMethods, total); err != nil {
		return nil, err
	}

	reservation := &Reservation{
		UserID: in.UserID, Origin: in.Origin, Destination: in.Destination,
		FlightType: in.FlightType, Cabin: in.Cabin,
		Flights: flights, Passengers: in.Passengers,
		PaymentHistory: takeBookingPayments(user, in.PaymentMethods),
		CreatedAt:      bookedAt,
		TotalBaggages:  in.TotalBaggages, NonfreeBaggages: in.NonfreeBaggages,
		Insurance: in.Insurance,
	}
	if err := insertReservation(ctx, tx, reservation); err != nil {
		return nil, err
	}
	user.Reservations = append(user.Reservations, reservation.ReservationID)
	if err := users.Save(ctx, tx, in.UserID, user); err != nil {
		return nil, err
	}
	return reservation, kit.Record(ctx, tx, Domain, "book_reservation", reservation.ReservationID)
}

func priceBooking(ctx context.Context, tx pgx.Tx, in BookIn) ([]BookedFlight, float64, error) {
	passengers := float64(len(in.Passengers))
	flights := []BookedFlight{}
	var total float64
	for _, choice := range in.Flights {
		flight, err := book(ctx, tx, choice, in.Cabin, len(in.Passengers))
		if err != nil {
			return nil, 0, err
		}
		flights = append(flights, flight)
		total += flight.Price * passengers
	}
	if in.Insurance == "yes" {
		total += insurancePrice * passengers
	}
	total += baggagePrice * float64(in.NonfreeBaggages)
	return flights, total, nil
}

// checkBookingPayments looks at each part by itself: two parts on one gift
// card are not added up.
func checkBookingPayments(user *User, parts []PaymentIn, total float64) error {
	var paid kit.Number
	for _, part := range parts {
		method, ok := user.PaymentMethods[part.PaymentID]
		if !ok {
			return kit.Refuse("payment method %s not found", part.PaymentID)
		}
		if !method.covers(part.Amount.Value) {
			return kit.Refuse("not enough balance in payment method %s", part.PaymentID)
		}
		paid = paid.Plus(part.Amount)
	}
	if paid.Value != total {
		return kit.Refuse("payment amount does not add up, total price is %s, but paid %s", kit.Number{Value: total}, paid)
	}
	return nil
}

// takeBookingPayments charges gift cards and uses certificates up, whatever
// they are worth, and returns the parts as history.
func takeBookingPayments(user *User, parts []PaymentIn) []Payment {
	history := []Payment{}
	for _, part := range parts {
		history = append(history, Payment{PaymentID: part.PaymentID, Amount: part.Amount.Value})
		method, ok := user.PaymentMethods[part.PaymentID]
		if !ok {
			continue // a certificate that an earlier part used up
		}
		method.charge(part.Amount.Value)
		if method.Source == sourceCertificate {
			delete(user.PaymentMethods, part.PaymentID)
		}
	}
	return history
}

// newNumbers are given to new reservations in turn. The last one is given again and again: it
// overwrites its own reservation.
var newNumbers = [...]string{"HATHAT", "HATHAU", "HATHAV"}

// lockNumbering lets one booking at a time choose a number, and locks the reservation that a
// booking may overwrite before any user is locked.
func lockNumbering(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		SELECT the_row
		FROM airline_numbering
		FOR UPDATE`)
	if err == nil {
		_, err = reservations.Lock(ctx, tx, newNumbers[len(newNumbers)-1])
	}
	if errors.As(err, new(*kit.Refusal)) {
		return nil // the number is free
	}
	if err != nil {
		return fmt.Errorf("locking numbering: %w", err)
	}
	return nil
}

// insertReservation stores a reservation under the first number that is free and sets it.
func insertReservation(ctx context.Context, tx pgx.Tx, reservation *Reservation) error {
	for _, number := range newNumbers {
		reservation.ReservationID = number
		written, err := reservations.Insert(ctx, tx, number, reservation)
		if written || err != nil {
			return err
		}
	}
	return reservations.Save(ctx, tx, reservation.ReservationID, reservation)
}
