package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/tooldedup/dedup"
)

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
