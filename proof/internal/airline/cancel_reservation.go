package airline

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
)

// CancelIn are the arguments of cancel_reservation.
type CancelIn struct {
	ReservationID string `json:"reservation_id"`
}

// CancelReservation notes a refund for every payment so far. A reservation
// that is cancelled already is cancelled again: its refunds are mirrored too.
func CancelReservation(ctx context.Context, tx pgx.Tx, in CancelIn) (*Reservation, error) {
	reservation, err := lockReservation(ctx, tx, in.ReservationID)
	if err != nil {
		return nil, err
	}
	for _, payment := range reservation.PaymentHistory {
		refund := Payment{PaymentID: payment.PaymentID, Amount: -payment.Amount}
		reservation.PaymentHistory = append(reservation.PaymentHistory, refund)
	}
	reservation.Status = "cancelled"
	if err := saveReservation(ctx, tx, reservation); err != nil {
		return nil, err
	}
	return reservation, effect.Record(ctx, tx, Domain, "cancel_reservation", in.ReservationID)
}
