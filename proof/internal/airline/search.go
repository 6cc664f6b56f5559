package airline

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// SearchIn are the arguments of both searches. Date is YYYY-MM-DD.
type SearchIn struct {
	Origin      string `json:"origin"`
	Destination string `json:"destination"`
	Date        string `json:"date"`
}

// Offer is a flight that can be booked on one day.
type Offer struct {
	FlightNumber string `json:"flight_number"`
	Route
	FlightDay
	Date string `json:"date,omitempty"` // only where there are two flights
}

// searchDirect lists the flights between two airports on a day.
func searchDirect(ctx context.Context, tx pgx.Tx, in SearchIn) ([]Offer, error) {
	return offers(ctx, tx, in.Date, in.Date, `origin = $1 AND destination = $2`, in.Origin, in.Destination)
}

// searchOnestop lists the pairs of flights that meet at a third airport, the
// second departing no earlier than the first arrives: on the next day where
// the first arrives after midnight. Such a second flight has to be available on
// the next day, and is shown with the seats and prices of the first day, as the
// recorded tool does.
func searchOnestop(ctx context.Context, tx pgx.Tx, in SearchIn) ([][]Offer, error) {
	firsts, err := offers(ctx, tx, in.Date, in.Date, `origin = $1`, in.Origin)
	if err != nil {
		return nil, err
	}
	sameDay, err := offers(ctx, tx, in.Date, in.Date, `destination = $1`, in.Destination)
	if err != nil {
		return nil, err
	}
	tomorrow := dayAfter(in.Date)
	nextDay, err := offers(ctx, tx, tomorrow, in.Date, `destination = $1`, in.Destination)
	if err != nil {
		return nil, err
	}
	pairs := [][]Offer{}
	for _, first := range firsts {
		day, seconds := in.Date, sameDay
		if strings.HasSuffix(first.Arrives, "+1") {
			day, seconds = tomorrow, nextDay
		}
		for _, second := range seconds {
			if second.Origin != first.Destination || second.Departs < first.Arrives {
				continue
			}
			first.Date, second.Date = in.Date, day
			pairs = append(pairs, []Offer{first, second})
		}
	}
	return pairs, nil
}

// offers lists the flights that a condition picks, which is always a constant of this file, and that are available on
// the day flying, with the seats and prices of the day shown.
func offers(ctx context.Context, tx pgx.Tx, flying, shown, condition string, args ...any) ([]Offer, error) {
	rows, _ := tx.Query(ctx, `
		SELECT flight_number, doc
		FROM airline_flights
		WHERE `+condition+`
		ORDER BY flight_number`, args...)
	found := []Offer{}
	var number string
	var flight Flight
	_, err := pgx.ForEachRow(rows, []any{&number, &flight}, func() error {
		day, known := flight.Dates[shown]
		if known && flight.Dates[flying].Status == bookable {
			found = append(found, Offer{FlightNumber: number, Route: flight.Route, FlightDay: day})
		}
		flight = Flight{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("searching flights: %w", err)
	}
	return found, nil
}

// dayAfter is "" for what is no date: nothing flies then.
func dayAfter(date string) string {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return ""
	}
	return day.AddDate(0, 0, 1).Format(time.DateOnly)
}
