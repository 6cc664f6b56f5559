package world

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/recording"
)

// documents are the tables of (id, doc), by the name of their file. Those that
// tools write to are copied for Reset.
var documents = []struct {
	table, id string
	keep      string // statement that copies the table into pristine
}{
	{table: "airline_users", id: "user_id", keep: `
		INSERT INTO pristine
		SELECT 'airline_users', user_id, doc
		FROM airline_users`},
	{table: "airline_reservations", id: "reservation_id", keep: `
		INSERT INTO pristine
		SELECT 'airline_reservations', reservation_id, doc
		FROM airline_reservations`},
	{table: "retail_users", id: "user_id", keep: `
		INSERT INTO pristine
		SELECT 'retail_users', user_id, doc
		FROM retail_users`},
	{table: "retail_orders", id: "order_id", keep: `
		INSERT INTO pristine
		SELECT 'retail_orders', order_id, doc
		FROM retail_orders`},
	{table: "retail_products", id: "product_id"},
}

// Load fills the tables that Create made with the database at the start of
// rec's sessions, and keeps a copy for Reset; all or nothing. Call it once.
func Load(ctx context.Context, db DB, rec *recording.Recording) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return load(ctx, tx, rec)
	})
	if err != nil {
		return fmt.Errorf("loading world: %w", err)
	}
	return nil
}

func load(ctx context.Context, tx pgx.Tx, rec *recording.Recording) error {
	// What is loaded is the start, not a change.
	if _, err := tx.Exec(ctx, `SELECT set_config('dedup_world.restoring', 'on', true)`); err != nil {
		return err
	}
	for _, target := range documents {
		rows := rec.Tables[target.table]
		_, err := tx.CopyFrom(ctx, pgx.Identifier{target.table}, []string{target.id, "doc"},
			pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
				return []any{rows[i].ID, string(rows[i].Doc)}, nil
			}))
		if err != nil {
			return err
		}
		if target.keep == "" {
			continue
		}
		if _, err := tx.Exec(ctx, target.keep); err != nil {
			return err
		}
	}
	if err := loadFlights(ctx, tx, rec.Tables["airline_flights"]); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO airline_numbering DEFAULT VALUES`); err != nil {
		return err
	}
	// A bare ANALYZE would want to analyze the system tables too.
	_, err := tx.Exec(ctx, `
		ANALYZE airline_users, airline_reservations, airline_flights, airline_flight_days,
			retail_users, retail_orders, retail_products, pristine, dirty, effects`)
	return err
}
