package retail

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// FindByEmailIn are the arguments of find_user_id_by_email.
type FindByEmailIn struct {
	Email string `json:"email"`
}

// FindByEmail answers with the id of the user who has an address, whatever its
// capitals.
func FindByEmail(ctx context.Context, tx pgx.Tx, in FindByEmailIn) (*string, error) {
	return findUser(ctx, tx, `
		SELECT user_id
		FROM retail_users
		WHERE email = lower($1)
		ORDER BY user_id
		LIMIT 1`, in.Email)
}

// FindByNameZipIn are the arguments of find_user_id_by_name_zip.
type FindByNameZipIn struct {
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Zip       string `json:"zip"`
}

// FindByNameZip answers with the id of the user of a name, whatever its
// capitals, who lives at a zip code.
func FindByNameZip(ctx context.Context, tx pgx.Tx, in FindByNameZipIn) (*string, error) {
	return findUser(ctx, tx, `
		SELECT user_id
		FROM retail_users
		WHERE first_name = lower($1)
		AND last_name = lower($2)
		AND zip = $3
		ORDER BY user_id
		LIMIT 1`, in.FirstName, in.LastName, in.Zip)
}

func findUser(ctx context.Context, tx pgx.Tx, query string, args ...any) (*string, error) {
	var id string
	err := tx.QueryRow(ctx, query, args...).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, kit.Refuse("user not found")
	}
	if err != nil {
		return nil, fmt.Errorf("finding user: %w", err)
	}
	return &id, nil
}
