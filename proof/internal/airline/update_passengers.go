package airline

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// UpdatePassengersIn are the arguments of update_reservation_passengers.
type UpdatePassengersIn struct {
	ReservationID string      `json:"reservation_id"`
	Passengers    []Passenger `json:"passengers"`
}

// UpdatePassengers replaces the passengers by as many others.
func UpdatePassengers(ctx context.Context, tx pgx.Tx, in UpdatePassengersIn) (*Reservation, error) {
	reservation, err := lockReservation(ctx, tx, in.ReservationID)
	if err != nil {
		return nil, err
	}
	if len(in.Passengers) != len(reservation.Passengers) {
		return nil, kit.Refuse("number of passengers does not match")
	}
	reservation.Passengers = in.Passengers
	if err := saveReservation(ctx, tx, reservation); err != nil {
		return nil, err
	}
	return reservation, effect.Record(ctx, tx, Domain, "update_reservation_passengers", in.ReservationID)
}
