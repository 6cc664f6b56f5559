package airline

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/doc"
)

// UserDetailsIn are the arguments of get_user_details.
type UserDetailsIn struct {
	UserID string `json:"user_id"`
}

// UserDetails returns a user's document as it is stored.
func UserDetails(ctx context.Context, tx pgx.Tx, in UserDetailsIn) (json.RawMessage, error) {
	return doc.Find[json.RawMessage](ctx, tx, "user not found", `
		SELECT doc
		FROM airline_users
		WHERE user_id = $1`, in.UserID)
}

// ReservationDetailsIn are the arguments of get_reservation_details.
type ReservationDetailsIn struct {
	ReservationID string `json:"reservation_id"`
}

// ReservationDetails returns a reservation's document as it is stored. The
// refusal speaks of a user, as the recorded tool does.
func ReservationDetails(ctx context.Context, tx pgx.Tx, in ReservationDetailsIn) (json.RawMessage, error) {
	return doc.Find[json.RawMessage](ctx, tx, "user not found", `
		SELECT doc
		FROM airline_reservations
		WHERE reservation_id = $1`, in.ReservationID)
}
