package airline

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
)

// UpdateFlightsIn are the arguments of update_reservation_flights.
type UpdateFlightsIn struct {
	ReservationID string         `json:"reservation_id"`
	Cabin         string         `json:"cabin"`
	Flights       []FlightChoice `json:"flights"`
	PaymentID     string         `json:"payment_id"`
}

// UpdateFlights replaces a reservation's flights and settles the difference.
// The reservation keeps its cabin even where another one was priced.
func UpdateFlights(ctx context.Context, tx pgx.Tx, in UpdateFlightsIn) (*Reservation, error) {
	reservation, err := lockReservation(ctx, tx, in.ReservationID)
	if err != nil {
		return nil, err
	}
	passengers := float64(len(reservation.Passengers))
	flights := []BookedFlight{}
	var difference, before float64
	for _, choice := range in.Flights {
		flight, kept := keep(reservation, choice, in.Cabin)
		if !kept {
			flight, err = book(ctx, tx, choice, in.Cabin, len(reservation.Passengers))
			if err != nil {
				return nil, err
			}
		}
		flights = append(flights, flight)
		difference += flight.Price * passengers
	}
	for _, flight := range reservation.Flights {
		before += flight.Price
	}
	difference -= before * passengers
	if err := payUpdate(ctx, tx, reservation, in.PaymentID, difference); err != nil {
		return nil, err
	}

	reservation.Flights = flights
	if err := saveReservation(ctx, tx, reservation); err != nil {
		return nil, err
	}
	return reservation, effect.Record(ctx, tx, Domain, "update_reservation_flights", in.ReservationID)
}

// keep finds a flight that the reservation has already, in the same cabin: it
// stays at its old price, whatever it would cost now.
func keep(reservation *Reservation, choice FlightChoice, cabin string) (BookedFlight, bool) {
	if cabin != reservation.Cabin {
		return BookedFlight{}, false
	}
	for _, flight := range reservation.Flights {
		if flight.FlightNumber == choice.FlightNumber && flight.Date == choice.Date {
			return flight, true
		}
	}
	return BookedFlight{}, false
}
