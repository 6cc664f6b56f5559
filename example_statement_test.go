package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// An effect that is one statement goes to the server together with its record, in
// one round trip. Its row is the result.
func ExampleDoStatement() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, title text)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	in := OpenTicket{Title: "printer on fire"}
	call := dedup.Call{Scope: "acme", Tool: "open_ticket", Key: "plan 17, step 4", Args: in}
	for range 2 {
		result, err := dedup.DoStatement[Ticket](ctx, d, call,
			dedup.SQL(`INSERT INTO tickets (title) VALUES ($1) RETURNING id, title`, in.Title))
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

// A statement that finds nothing to do returns no row. OnError makes of that an
// answer that a retry must not change.
func ExampleStatement() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE seats (number int, guest text)`, `INSERT INTO seats VALUES (1, 'ann')`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	type Seat struct{ Number int }
	book := dedup.Statement{
		SQL:  `UPDATE seats SET guest = @guest WHERE number = @number AND guest IS NULL RETURNING number`,
		Args: []any{pgx.NamedArgs{"number": 1, "guest": "bob"}},
		OnError: func(err error) error {
			if errors.Is(err, pgx.ErrNoRows) {
				return dedup.Final(errors.New("this seat is taken"))
			}
			return err
		},
	}
	call := dedup.Call{Scope: "acme", Tool: "book_seat", Key: "plan 17, step 5"}
	for range 2 {
		_, err = dedup.DoStatement[Seat](ctx, d, call, book)
		fmt.Println(errors.Is(err, dedup.ErrRefused), err)
		if _, err := pool.Exec(ctx, `UPDATE seats SET guest = NULL`); err != nil { // too late for this call
			log.Fatal(err)
		}
	}

	// Output:
	// true this seat is taken
	// true this seat is taken
}

// A worker that takes a call up again expects that it was made before. It looks
// first: a replay takes one round trip then, and no transaction.
func ExampleCall_lookFirst() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, title text)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	in := OpenTicket{Title: "printer on fire"}
	for try := range 2 {
		result, err := dedup.Do(ctx, d, dedup.Call{
			Scope: "acme", Tool: "open_ticket", Key: "plan 17, step 4", Args: in,
			LookFirst: try > 0,
		}, func(ctx context.Context, tx pgx.Tx) (Ticket, error) {
			return openTicket(ctx, tx, in)
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Value.Title, "replayed:", result.Replayed, "transactions:", result.Attempts)
	}

	// Output:
	// printer on fire replayed: false transactions: 1
	// printer on fire replayed: true transactions: 0
}

// openTickets makes a call of each title, with the title's place as its key.
func openTickets(titles ...string) []dedup.StatementCall {
	var calls []dedup.StatementCall
	for i, title := range titles {
		calls = append(calls, dedup.StatementCall{
			Call:      dedup.Call{Scope: "acme", Tool: "open_ticket", Key: fmt.Sprint("import 4, row ", i), Args: OpenTicket{Title: title}},
			Statement: dedup.SQL(`INSERT INTO tickets (title) VALUES ($1) RETURNING id, title`, title),
		})
	}
	return calls
}

// A bulk job broke off after two rows and is run again. A hundred calls at a time
// share one round trip; one that fails does not disturb the others.
func ExampleDoBatch() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, title text CHECK (title <> ''))`)
	defer done()

	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	calls := openTickets("printer on fire", "paper jam", "", "no coffee")
	for _, rows := range [][]dedup.StatementCall{calls[:2], calls} {
		for out := range dedup.DoBatch[Ticket](ctx, d, slices.Values(rows), nil) {
			if out.Err != nil {
				fmt.Println(out.Index, "failed")
				continue
			}
			fmt.Println(out.Index, out.Result.Value.Title, "replayed:", out.Result.Replayed)
		}
	}
	fmt.Println("rows:", exampleCount(pool, "tickets"))

	// Output:
	// 0 printer on fire replayed: false
	// 1 paper jam replayed: false
	// 0 printer on fire replayed: true
	// 1 paper jam replayed: true
	// 2 failed
	// 3 no coffee replayed: false
	// rows: 3
}

// All the calls of one turn are to happen, or none of them.
func ExampleDoTogether() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, title text CHECK (title <> ''))`)
	defer done()

	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = dedup.DoTogether[Ticket](ctx, d, openTickets("printer on fire", ""))
	var named *dedup.BatchError
	if errors.As(err, &named) {
		fmt.Println("call", named.Index, "failed; rows:", exampleCount(pool, "tickets"))
	}
	results, err := dedup.DoTogether[Ticket](ctx, d, openTickets("printer on fire", "paper jam"))
	if err != nil {
		log.Fatal(err)
	}
	for _, result := range results {
		fmt.Println(result.Value.Title, "replayed:", result.Replayed)
	}
	fmt.Println("rows:", exampleCount(pool, "tickets"))

	// Output:
	// call 1 failed; rows: 0
	// printer on fire replayed: false
	// paper jam replayed: false
	// rows: 2
}
