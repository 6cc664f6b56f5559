package airline

import (
	"context"
	"encoding/json"
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
	Origin       string `json:"origin"`
	Destination  string `json:"destination"`
	Departs      string `json:"scheduled_departure_time_est"`
	Arrives      string `json:"scheduled_arrival_time_est"`
	FlightDay
	Date string `json:"date,omitempty"` // only where there are two flights
}

// searchDirect lists the flights between two airports on a day.
func searchDirect(ctx context.Context, tx pgx.Tx, in SearchIn) ([]Offer, error) {
	return offers(ctx, tx, in.Date, in.Date, `
		f.origin = $3 AND f.destination = $4`, in.Origin, in.Destination)
}

// searchOnestop lists the pairs of flights that meet at a third airport, the
// second departing no earlier than the first arrives: on the next day where
// the first arrives after midnight. Such a second flight has to be available on
// the next day, and is shown with the seats and prices of the first day, as the
// recorded tool does.
func searchOnestop(ctx context.Context, tx pgx.Tx, in SearchIn) ([][]Offer, error) {
	firsts, err := offers(ctx, tx, in.Date, in.Date, `f.origin = $3`, in.Origin)
	if err != nil {
		return nil, err
	}
	sameDay, err := offers(ctx, tx, in.Date, in.Date, `f.destination = $3`, in.Destination)
	if err != nil {
		return nil, err
	}
	tomorrow := dayAfter(in.Date)
	nextDay, err := offers(ctx, tx, tomorrow, in.Date, `f.destination = $3`, in.Destination)
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

// offersSQL is completed by a condition on f, which is always a constant of
// this file.
const offersSQL = `
	SELECT f.flight_number, f.origin, f.destination, f.departs, f.arrives, shown.doc
	FROM airline_flights f
	JOIN airline_flight_days flying ON flying.flight_number = f.flight_number
	JOIN airline_flight_days shown ON shown.flight_number = f.flight_number
	WHERE flying.day = $1
	AND flying.status = 'available'
	AND shown.day = $2
	AND `

// offers lists the flights that are available on the day flying, with the seats
// and prices of the day shown.
func offers(ctx context.Context, tx pgx.Tx, flying, shown, condition string, args ...any) ([]Offer, error) {
	query := offersSQL + condition + `
	ORDER BY f.position`
	rows, err := tx.Query(ctx, query, append([]any{flying, shown}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("searching flights: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Offer, error) {
		var offer Offer
		var doc []byte
		err := row.Scan(&offer.FlightNumber, &offer.Origin, &offer.Destination, &offer.Departs, &offer.Arrives, &doc)
		if err != nil {
			return offer, err
		}
		return offer, json.Unmarshal(doc, &offer.FlightDay)
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
