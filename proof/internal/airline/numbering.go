package airline

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/doc"
)

// newNumbers are given to new reservations in turn. The last one is given
// again and again: it overwrites its own reservation.
var newNumbers = [...]string{"HATHAT", "HATHAU", "HATHAV"}

// lockNumbering lets one booking at a time choose a number, and locks the
// reservation that a booking may overwrite before any user is locked.
func lockNumbering(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		SELECT the_row
		FROM airline_numbering
		FOR UPDATE`)
	if err == nil {
		_, err = tx.Exec(ctx, `
			SELECT reservation_id
			FROM airline_reservations
			WHERE reservation_id = $1
			FOR UPDATE`, newNumbers[len(newNumbers)-1])
	}
	if err != nil {
		return fmt.Errorf("locking numbering: %w", err)
	}
	return nil
}

// insertReservation stores a reservation under the first number that is free
// and sets it.
func insertReservation(ctx context.Context, tx pgx.Tx, reservation *Reservation) error {
	last := len(newNumbers) - 1
	for _, number := range newNumbers[:last] {
		reservation.ReservationID = number
		written, err := doc.Put(ctx, tx, `
			INSERT INTO airline_reservations (reservation_id, doc)
			VALUES ($1, $2)
			ON CONFLICT (reservation_id) DO NOTHING`, number, reservation)
		if written || err != nil {
			return err
		}
	}
	reservation.ReservationID = newNumbers[last]
	return doc.Save(ctx, tx, `
		INSERT INTO airline_reservations (reservation_id, doc)
		VALUES ($1, $2)
		ON CONFLICT (reservation_id) DO UPDATE
		SET doc = excluded.doc`, newNumbers[last], reservation)
}
