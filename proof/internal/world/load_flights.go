package world

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/recording"
)

// recordedFlight is a document of airline_flights: a flight with all its days.
type recordedFlight struct {
	Origin      string                     `json:"origin"`
	Destination string                     `json:"destination"`
	Departs     string                     `json:"scheduled_departure_time_est"`
	Arrives     string                     `json:"scheduled_arrival_time_est"`
	Dates       map[string]json.RawMessage `json:"dates"`
}

// loadFlights splits every flight into its row and one row a day: no tool
// wants a flight with all its days.
func loadFlights(ctx context.Context, tx pgx.Tx, rows []recording.Row) error {
	var flights, days [][]any
	for position, row := range rows {
		var flight recordedFlight
		if err := json.Unmarshal(row.Doc, &flight); err != nil {
			return fmt.Errorf("airline_flights, row %s: %w", row.ID, err)
		}
		flights = append(flights, []any{row.ID, position, flight.Origin, flight.Destination, flight.Departs, flight.Arrives})
		for day, doc := range flight.Dates {
			days = append(days, []any{row.ID, day, string(doc)})
		}
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"airline_flights"},
		[]string{"flight_number", "position", "origin", "destination", "departs", "arrives"},
		pgx.CopyFromRows(flights))
	if err != nil {
		return err
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"airline_flight_days"},
		[]string{"flight_number", "day", "doc"},
		pgx.CopyFromRows(days))
	return err
}
