package dedup_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// OpenTicket is what the tool is called with, Ticket what it answers.
type (
	OpenTicket struct {
		Title string `json:"title"`
	}
	Ticket struct {
		ID    int    `json:"id"`
		Title string `json:"title"`
	}
)

// openTicket is the tool: it writes through the transaction that it is handed,
// and returns what the model is to be told.
func openTicket(ctx context.Context, tx pgx.Tx, in OpenTicket) (Ticket, error) {
	ticket := Ticket{Title: in.Title}
	err := tx.QueryRow(ctx, `INSERT INTO tickets (title) VALUES ($1) RETURNING id`, in.Title).Scan(&ticket.ID)
	return ticket, err
}

// A tool is called twice with one key, as after a lost answer. It writes once,
// and both callers get the one result.
func ExampleDo() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, title text)`)
	defer done()

	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	key, err := dedup.KeyFromToolCall("conversation 17", 4, "call_0")
	if err != nil {
		log.Fatal(err)
	}
	in := OpenTicket{Title: "printer on fire"}

	for range 2 {
		result, err := dedup.Do(ctx, d, dedup.Call{
			Scope: "acme", Tool: "open_ticket", Key: key, Args: in,
		}, func(ctx context.Context, tx pgx.Tx) (Ticket, error) {
			return openTicket(ctx, tx, in)
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%+v replayed=%t\n", result.Value, result.Replayed)
	}
	fmt.Println("rows:", exampleCount(pool, "tickets"))

	// Output:
	// {ID:1 Title:printer on fire} replayed=false
	// {ID:1 Title:printer on fire} replayed=true
	// rows: 1
}
