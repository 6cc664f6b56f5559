package airline

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// Flight is a document of airline_flights.
type Flight struct {
	Route
	Dates map[string]FlightDay `json:"dates"`
}

// Route is where and when a flight flies. It arrives on the next day where Arrives ends with +1.
type Route struct {
	Origin      string `json:"origin"`
	Destination string `json:"destination"`
	Departs     string `json:"scheduled_departure_time_est"`
	Arrives     string `json:"scheduled_arrival_time_est"`
}

// FlightDay is a flight on one day. Seats and prices, by cabin, are there only
// while it can be booked.
type FlightDay struct {
	Status         string             `json:"status"`
	AvailableSeats map[string]int     `json:"available_seats,omitempty"`
	Prices         map[string]float64 `json:"prices,omitempty"`
}

// bookable is the status of a day on which a flight can be booked.
const bookable = "available"

// book prices a flight for a number of passengers, or refuses: the number is
// not known, not on that day, not open for booking, or has too few seats.
func book(ctx context.Context, tx pgx.Tx, choice FlightChoice, cabin string, passengers int) (booked BookedFlight, err error) {
	flight, err := flights.Read(ctx, tx, choice.FlightNumber)
	if errors.Is(err, pgx.ErrNoRows) {
		return booked, kit.Refuse("flight %s not found", choice.FlightNumber)
	}
	if err != nil {
		return booked, err
	}
	day, flies := flight.Dates[choice.Date]
	seats, known := day.AvailableSeats[cabin]
	switch {
	case !flies:
		return booked, kit.Refuse("flight %s not found on date %s", choice.FlightNumber, choice.Date)
	case day.Status != bookable:
		return booked, kit.Refuse("flight %s not available on date %s", choice.FlightNumber, choice.Date)
	case !known:
		return booked, kit.Refuse("'%s'", cabin)
	case seats < passengers:
		return booked, kit.Refuse("not enough seats on flight %s", choice.FlightNumber)
	}
	return BookedFlight{
		FlightNumber: choice.FlightNumber, Date: choice.Date, Price: day.Prices[cabin],
		Origin: flight.Origin, Destination: flight.Destination,
	}, nil
}
