package airline

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
)

// UpdateBaggagesIn are the arguments of update_reservation_baggages.
type UpdateBaggagesIn struct {
	ReservationID   string `json:"reservation_id"`
	TotalBaggages   int    `json:"total_baggages"`
	NonfreeBaggages int    `json:"nonfree_baggages"`
	PaymentID       string `json:"payment_id"`
}

// UpdateBaggages sets both counts and charges for pieces that are added and
// not free. Nothing is paid back for fewer.
func UpdateBaggages(ctx context.Context, tx pgx.Tx, in UpdateBaggagesIn) (*Reservation, error) {
	reservation, err := lockReservation(ctx, tx, in.ReservationID)
	if err != nil {
		return nil, err
	}
	added := max(0, in.NonfreeBaggages-reservation.NonfreeBaggages)
	if err := payUpdate(ctx, tx, reservation, in.PaymentID, baggagePrice*float64(added)); err != nil {
		return nil, err
	}
	reservation.TotalBaggages = in.TotalBaggages
	reservation.NonfreeBaggages = in.NonfreeBaggages
	if err := saveReservation(ctx, tx, reservation); err != nil {
		return nil, err
	}
	return reservation, effect.Record(ctx, tx, Domain, "update_reservation_baggages", in.ReservationID)
}
