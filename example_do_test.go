package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// OpenTicket holds the arguments of the tool, Ticket its result.
type (
	OpenTicket struct {
		Title string `json:"title"`
	}
	Ticket struct {
		ID    int    `json:"id"`
		Title string `json:"title"`
	}
)

// openTicket is the tool: it writes through the transaction that it is handed, and returns what the
// model is to see.
func openTicket(ctx context.Context, tx pgx.Tx, in OpenTicket) (Ticket, error) {
	ticket := Ticket{Title: in.Title}
	err := tx.QueryRow(ctx, `INSERT INTO tickets (title) VALUES ($1) RETURNING id`, in.Title).Scan(&ticket.ID)
	return ticket, err
}

// A tool is called twice with one key, as after a lost answer. It writes once, and both callers get
// the one result.
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

// Ten workers of two processes are handed the same call at the same moment. One runs the effect;
// the others wait for it, without holding a connection, and get its result.
func Example_replay() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE payments (id int GENERATED ALWAYS AS IDENTITY, cents int)`)
	defer done()

	// Two Dedupers know nothing of each other, like two processes.
	var processes [2]*dedup.Deduper
	for i := range processes {
		d, err := dedup.New(pool, nil)
		if err != nil {
			log.Fatal(err)
		}
		processes[i] = d
	}

	pay := dedup.Call{Scope: "acme", Tool: "pay", Key: "invoice-2026-117", Args: map[string]int{"cents": 4200}}
	var ids [10]int
	var executed [10]bool
	var workers sync.WaitGroup
	for i := range ids {
		workers.Go(func() {
			result, err := dedup.Do(ctx, processes[i%2], pay, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
				err = tx.QueryRow(ctx, `INSERT INTO payments (cents) VALUES (4200) RETURNING id`).Scan(&id)
				return id, err
			})
			if err != nil {
				log.Fatal(err)
			}
			ids[i], executed[i] = result.Value, !result.Replayed
		})
	}
	workers.Wait()

	runs := 0
	for _, ran := range executed {
		if ran {
			runs++
		}
	}
	fmt.Println("results:", ids)
	fmt.Println("executed:", runs)
	fmt.Println("payments:", exampleCount(pool, "payments"))

	// Output:
	// results: [1 1 1 1 1 1 1 1 1 1]
	// executed: 1
	// payments: 1
}

// MaxWait bounds how long a call waits for a twin. Negative means not at all.
func ExampleCall_maxWait() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	call := dedup.Call{Scope: "acme", Tool: "export", Key: "k1"}

	started, release, ended := make(chan bool), make(chan bool), make(chan bool)
	effect := func(ctx context.Context, tx pgx.Tx) (string, error) {
		close(started)
		<-release
		return "exported", nil
	}
	go func() {
		defer close(ended)
		if _, err := dedup.Do(ctx, d, call, effect); err != nil {
			log.Fatal(err)
		}
	}()
	<-started

	for _, wait := range []time.Duration{-1, 10 * time.Millisecond} {
		impatient := call
		impatient.MaxWait = wait
		_, err := dedup.Do(ctx, d, impatient, effect)
		fmt.Println("in flight:", errors.Is(err, dedup.ErrInFlight))
	}

	close(release)
	<-ended
	result, err := dedup.Do(ctx, d, call, effect)
	fmt.Println(result.Value, result.Replayed, err)

	// Output:
	// in flight: true
	// in flight: true
	// exported true <nil>
}

// callAgain calls until there is an answer, with the same key and growing pauses. Each try has its
// own time limit; what must not change is the call.
func callAgain(ctx context.Context, d *dedup.Deduper, call dedup.Call, effect dedup.Effect[string]) (dedup.Result[string], error) {
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		result, err := dedup.Do(try, d, call, effect)
		cancel()
		if !dedup.IsRetryable(err) {
			return result, err
		}
		fmt.Println("again:", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return result, err
		}
	}
}

// IsRetryable is true of an error after which the same call may still be answered. Other errors are
// the answer.
func ExampleIsRetryable() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	tries := 0
	effect := func(ctx context.Context, tx pgx.Tx) (string, error) {
		if tries++; tries == 1 {
			return "", fmt.Errorf("looking up the address: %w", context.DeadlineExceeded)
		}
		return "sent", nil
	}
	call := dedup.Call{Scope: "acme", Tool: "send_parcel", Key: dedup.NewKey()}
	result, err := callAgain(ctx, d, call, effect)
	fmt.Println(result.Value, err)

	// Output:
	// again: looking up the address: context deadline exceeded
	// sent <nil>
}
