package airline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// FlightDay is a flight on one day. Seats and prices, by cabin, are there only
// while it can be booked.
type FlightDay struct {
	Status         string             `json:"status"`
	AvailableSeats map[string]int     `json:"available_seats,omitempty"`
	Prices         map[string]float64 `json:"prices,omitempty"`
}

// book prices a flight for a number of passengers, or refuses: the number is
// not known, not on that day, not open for booking, or has too few seats.
func book(ctx context.Context, tx pgx.Tx, choice FlightChoice, cabin string, passengers int) (BookedFlight, error) {
	booked := BookedFlight{FlightNumber: choice.FlightNumber, Date: choice.Date}
	var text []byte
	err := tx.QueryRow(ctx, `
		SELECT f.origin, f.destination, d.doc
		FROM airline_flights f
		LEFT JOIN airline_flight_days d ON d.flight_number = f.flight_number AND d.day = $2
		WHERE f.flight_number = $1`,
		choice.FlightNumber, choice.Date).Scan(&booked.Origin, &booked.Destination, &text)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return booked, kit.Refuse("flight %s not found", choice.FlightNumber)
	case err != nil:
		return booked, fmt.Errorf("reading flight %s: %w", choice.FlightNumber, err)
	case text == nil:
		return booked, kit.Refuse("flight %s not found on date %s", choice.FlightNumber, choice.Date)
	}
	var day FlightDay
	if err := json.Unmarshal(text, &day); err != nil {
		return booked, fmt.Errorf("decoding flight %s on %s: %w", choice.FlightNumber, choice.Date, err)
	}
	if day.Status != "available" {
		return booked, kit.Refuse("flight %s not available on date %s", choice.FlightNumber, choice.Date)
	}
	seats, known := day.AvailableSeats[cabin]
	if !known {
		return booked, kit.Refuse("'%s'", cabin)
	}
	if seats < passengers {
		return booked, kit.Refuse("not enough seats on flight %s", choice.FlightNumber)
	}
	booked.Price = day.Prices[cabin]
	return booked, nil
}
