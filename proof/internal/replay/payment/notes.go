package payment

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What is noted with the claim, with the record of a success, and with that of a refusal.
const begun, finished, refused = "begun", "finished", "refused"

// CreateNotes makes the table of notes. Nothing is unique in it.
func CreateNotes(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `CREATE TABLE payment_notes (ref text NOT NULL, kind text NOT NULL)`)
	if err != nil {
		return fmt.Errorf("creating the table of notes: %w", err)
	}
	return nil
}

func note(ctx context.Context, tx pgx.Tx, ref, kind string) error {
	_, err := tx.Exec(ctx, `INSERT INTO payment_notes (ref, kind) VALUES ($1, $2)`, ref, kind)
	return err
}

// Noted reports whether the notes of a call that is answered are those that it should have
// left: one of its claim, where its tool writes then, and one of its record.
func Noted(ctx context.Context, pool *pgxpool.Pool, tool, ref string, refusal bool) (bool, error) {
	var got [3]int
	err := pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE kind = 'begun'), count(*) FILTER (WHERE kind = 'finished'), count(*) FILTER (WHERE kind = 'refused')
		FROM payment_notes
		WHERE ref = $1`, ref).Scan(&got[0], &got[1], &got[2])
	if err != nil {
		return false, fmt.Errorf("reading notes: %w", err)
	}
	want := [3]int{0, 1, 0}
	if begins[tool] {
		want[0] = 1
	}
	if refusal {
		want[1], want[2] = 0, 1
	}
	return got == want, nil
}
