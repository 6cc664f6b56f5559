package dedup_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
)

// DBTX, Queries, WithTx and CreateBooking are what sqlc generates for pgx/v5.
type (
	DBTX interface {
		Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
		Query(context.Context, string, ...any) (pgx.Rows, error)
		QueryRow(context.Context, string, ...any) pgx.Row
	}
	Queries struct{ db DBTX }
	Booking struct {
		ID    int32
		Guest string
	}
)

func (q *Queries) WithTx(tx pgx.Tx) *Queries { return &Queries{db: tx} }

func (q *Queries) CreateBooking(ctx context.Context, guest string) (Booking, error) {
	var b Booking
	err := q.db.QueryRow(ctx, `INSERT INTO bookings (guest) VALUES ($1) RETURNING id, guest`, guest).Scan(&b.ID, &b.Guest)
	return b, err
}

// Queries that sqlc generated run on the effect's transaction by WithTx, in Do
// as in DoTx.
func Example_sqlc() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE bookings (id int GENERATED ALWAYS AS IDENTITY, guest text NOT NULL)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	queries := &Queries{db: pool}

	book := func(tx pgx.Tx, guest string) error {
		call := dedup.Call{Scope: "hotel-9", Tool: "book_room", Key: "plan-3-step-1", Args: guest}
		result, err := dedup.DoTx(ctx, d, tx, call, func(ctx context.Context, tx pgx.Tx) (Booking, error) {
			return queries.WithTx(tx).CreateBooking(ctx, guest)
		})
		if err == nil {
			fmt.Printf("%+v replayed=%t\n", result.Value, result.Replayed)
		}
		return err
	}
	for range 2 {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return book(tx, "Ada") })
		if err != nil {
			log.Fatal(err)
		}
	}

	// Output:
	// {ID:1 Guest:Ada} replayed=false
	// {ID:1 Guest:Ada} replayed=true
}
