// Package world is the application that recorded sessions are replayed in: its
// Postgres schema, its data, its tools, and what has changed since the start.
//
// Everything lives in the schema that search_path puts first. Any number of
// processes may run tools in one world at once.
package world

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/recording"
)

//go:embed schema.sql
var schema string

// DB is a *pgx.Conn, a *pgxpool.Pool or a pgx.Tx.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// documents is a table of (id, doc), whose name is that of its file in a recording.
type documents struct{ table, id string }

// read are the tables that tools only read.
var read = []documents{{"airline_flights", "flight_number"}, {"retail_products", "product_id"}}

// written are the tables that tools write to, by domain. What was loaded into a table is kept in another one, of its
// name and _pristine. A tool locks a row of the first table before a row of the second one, and so does Reset.
var written = map[string][]documents{
	"airline": {{"airline_reservations", "reservation_id"}, {"airline_users", "user_id"}},
	"retail":  {{"retail_orders", "order_id"}, {"retail_users", "user_id"}},
}

// Create makes the application's tables with the data from which the sessions of rec start; all or
// nothing. It fails where the tables exist.
func Create(ctx context.Context, db DB, rec *recording.Recording) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, schema); err != nil {
			return err
		}
		for _, t := range read {
			if err := load(ctx, tx, rec, t); err != nil {
				return err
			}
		}
		for _, tables := range written {
			for _, t := range tables {
				if err := load(ctx, tx, rec, t); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, fmt.Sprintf(`
					CREATE TABLE %[1]s_pristine AS SELECT %[2]s AS id, doc FROM %[1]s;
					ALTER TABLE %[1]s_pristine ADD PRIMARY KEY (id);
					ANALYZE %[1]s, %[1]s_pristine`, t.table, t.id))
				if err != nil {
					return err
				}
			}
		}
		// A bare ANALYZE would want to analyze the system tables too.
		_, err := tx.Exec(ctx, `ANALYZE airline_flights, retail_products, effects`)
		return err
	})
	if err != nil {
		return fmt.Errorf("creating world: %w", err)
	}
	return nil
}

func load(ctx context.Context, tx pgx.Tx, rec *recording.Recording, t documents) error {
	rows := rec.Tables[t.table]
	_, err := tx.CopyFrom(ctx, pgx.Identifier{t.table}, []string{t.id, "doc"},
		pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) { return []any{rows[i].ID, string(rows[i].Doc)}, nil }))
	if err != nil {
		return fmt.Errorf("loading %s: %w", t.table, err)
	}
	return nil
}
