package world

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/recording"
)

// documents are the tables of (id, doc), by the name of their file. Those that
// tools write to are kept in pristine, for Reset.
var documents = []struct {
	table, id string
	kept      bool
}{
	{"airline_users", "user_id", true},
	{"airline_reservations", "reservation_id", true},
	{"retail_users", "user_id", true},
	{"retail_orders", "order_id", true},
	{"retail_products", "product_id", false},
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
		if !target.kept {
			continue
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO pristine SELECT '%[1]s', %[2]s, doc FROM %[1]s", target.table, target.id)); err != nil {
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
