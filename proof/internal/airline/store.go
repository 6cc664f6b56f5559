package airline

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/doc"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// Domain is the name under which the airline's tools and tables go.
const Domain = "airline"

// lockReservation reads a reservation that the transaction will change.
func lockReservation(ctx context.Context, tx pgx.Tx, id string) (*Reservation, error) {
	return doc.Find[*Reservation](ctx, tx, "reservation not found", `
		SELECT doc
		FROM airline_reservations
		WHERE reservation_id = $1
		FOR UPDATE`, id)
}

func saveReservation(ctx context.Context, tx pgx.Tx, reservation *Reservation) error {
	return doc.Save(ctx, tx, `
		UPDATE airline_reservations
		SET doc = $2
		WHERE reservation_id = $1`, reservation.ReservationID, reservation)
}

// lockUser reads a user that the transaction may change.
func lockUser(ctx context.Context, tx pgx.Tx, id string) (*User, error) {
	return doc.Find[*User](ctx, tx, "user not found", `
		SELECT doc
		FROM airline_users
		WHERE user_id = $1
		FOR UPDATE`, id)
}

// lockOwner is lockUser for a reservation that is locked already. Here a user
// who is missing is damage, no answer.
func lockOwner(ctx context.Context, tx pgx.Tx, reservation *Reservation) (*User, error) {
	user, err := lockUser(ctx, tx, reservation.UserID)
	var missing *kit.Refusal
	if errors.As(err, &missing) {
		return nil, fmt.Errorf("user %s of reservation %s is missing", reservation.UserID, reservation.ReservationID)
	}
	return user, err
}

func saveUser(ctx context.Context, tx pgx.Tx, id string, user *User) error {
	return doc.Save(ctx, tx, `
		UPDATE airline_users
		SET doc = $2
		WHERE user_id = $1`, id, user)
}
