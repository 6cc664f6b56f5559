package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
)

// checkout makes two calls in one transaction: both are committed, or neither. Every transaction
// makes them in the same order, so that two of them cannot deadlock.
func checkout(ctx context.Context, d *dedup.Deduper, order string) error {
	step := func(tx pgx.Tx, tool, sql string) error {
		key, err := dedup.KeyFromIntent("order", order, tool)
		if err != nil {
			return err
		}
		result, err := dedup.DoTx(ctx, d, tx, dedup.Call{Scope: "acme", Tool: tool, Key: key},
			func(ctx context.Context, tx pgx.Tx) (string, error) {
				_, err := tx.Exec(ctx, sql, order)
				return tool + " of " + order, err
			})
		if err == nil {
			fmt.Printf("%s, replayed=%t\n", result.Value, result.Replayed)
		}
		return err
	}
	return d.BeginFunc(ctx, func(tx pgx.Tx) error {
		if err := step(tx, "reserve_stock", `INSERT INTO reservations VALUES ($1)`); err != nil {
			return err
		}
		return step(tx, "send_parcel", `INSERT INTO parcels VALUES ($1)`)
	})
}

// Two calls share one transaction of the caller. The second checkout is a retry, and replays both.
func ExampleDoTx() {
	ctx := context.Background()
	pool, done := exampleDatabase(
		`CREATE TABLE reservations (order_id text)`,
		`CREATE TABLE parcels (order_id text)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	for range 2 {
		if err := checkout(ctx, d, "A-117"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("reservations:", exampleCount(pool, "reservations"), "parcels:", exampleCount(pool, "parcels"))

	// Output:
	// reserve_stock of A-117, replayed=false
	// send_parcel of A-117, replayed=false
	// reserve_stock of A-117, replayed=true
	// send_parcel of A-117, replayed=true
	// reservations: 1 parcels: 1
}

// A call that fails leaves the caller's transaction as it was before: what it had written is gone,
// and the transaction goes on.
func ExampleDoTx_failure() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE notes (text text NOT NULL)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := dedup.DoTx(ctx, d, tx, dedup.Call{Scope: "acme", Tool: "add_note", Key: "k1"},
			func(ctx context.Context, tx pgx.Tx) (any, error) {
				if _, err := tx.Exec(ctx, `INSERT INTO notes VALUES ('half of it')`); err != nil {
					return nil, err
				}
				_, err := tx.Exec(ctx, `INSERT INTO notes VALUES (NULL)`)
				return nil, err
			})
		fmt.Println("failed:", err != nil)

		_, err = tx.Exec(ctx, `INSERT INTO notes VALUES ('written instead')`)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("notes:", exampleCount(pool, "notes"), "records:", exampleCount(pool, "tool_dedup"))

	// Output:
	// failed: true
	// notes: 1 records: 0
}

// A refusal is an answer: BeginFunc commits on it, and returns it.
func ExampleDeduper_BeginFunc() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE payments (amount int)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	pay := func(key string, balance, amount int) error {
		return d.BeginFunc(ctx, func(tx pgx.Tx) error {
			result, err := dedup.DoTx(ctx, d, tx, dedup.Call{Scope: "acme", Tool: "pay", Key: key, Args: amount},
				func(ctx context.Context, tx pgx.Tx) (int, error) {
					if balance < amount {
						return 0, dedup.Final(errors.New("payment declined"))
					}
					_, err := tx.Exec(ctx, `INSERT INTO payments VALUES ($1)`, amount)
					return balance - amount, err
				})
			if err == nil {
				fmt.Println("left:", result.Value, "replayed:", result.Replayed)
			}
			return err
		})
	}
	for _, balance := range []int{10, 100} { // the second try gets the first one's answer
		var refused *dedup.RefusedError
		if err := pay("k1", balance, 30); errors.As(err, &refused) {
			fmt.Println(refused.Message, refused.Replayed)
		}
	}
	for range 2 {
		if err := pay("k2", 100, 30); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("payments:", exampleCount(pool, "payments"))

	// Output:
	// payment declined false
	// payment declined true
	// left: 70 replayed: false
	// left: 70 replayed: true
	// payments: 1
}

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

// Queries that sqlc generated run on the effect's transaction by WithTx, in Do as in DoTx.
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

// An effect that is one statement goes to the server together with its record, in one round trip.
// Its row is the result.
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

// A statement that finds nothing to do returns no row. OnError makes of that an answer that a retry
// must not change.
func ExampleStatement() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE coupons (number int, customer text)`, `INSERT INTO coupons VALUES (1, 'ann')`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	type Coupon struct{ Number int }
	redeem := dedup.Statement{
		SQL:  `UPDATE coupons SET customer = @customer WHERE number = @number AND customer IS NULL RETURNING number`,
		Args: []any{pgx.NamedArgs{"number": 1, "customer": "bob"}},
		OnError: func(err error) error {
			if errors.Is(err, pgx.ErrNoRows) {
				return dedup.Final(errors.New("another customer has redeemed this coupon"))
			}
			return err
		},
	}
	call := dedup.Call{Scope: "acme", Tool: "redeem_coupon", Key: "plan 17, step 5"}
	for range 2 {
		_, err = dedup.DoStatement[Coupon](ctx, d, call, redeem)
		fmt.Println(errors.Is(err, dedup.ErrRefused), err)
		if _, err := pool.Exec(ctx, `UPDATE coupons SET customer = NULL`); err != nil { // too late for this call
			log.Fatal(err)
		}
	}

	// Output:
	// true another customer has redeemed this coupon
	// true another customer has redeemed this coupon
}

// A worker that takes a call up again expects that it was made before. It looks first: a replay
// takes one round trip then, and no transaction.
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

// A bulk job broke off after two rows and is run again. A hundred calls at a time share one round
// trip; one that fails does not disturb the others.
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

// All the calls of one turn are to happen, or none of them: DoTx in a loop inside one transaction.
func ExampleDeduper_BeginFunc_allOrNone() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, title text CHECK (title <> ''))`)
	defer done()

	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	openAll := func(titles ...string) error {
		var opened []dedup.Result[Ticket]
		err := d.BeginFunc(ctx, func(tx pgx.Tx) error {
			opened = nil // it may be called again
			for i, title := range titles {
				call := dedup.Call{Scope: "acme", Tool: "open_ticket", Key: fmt.Sprint("turn 7, call ", i), Args: OpenTicket{Title: title}}
				result, err := dedup.DoTx(ctx, d, tx, call, func(ctx context.Context, tx pgx.Tx) (t Ticket, err error) {
					err = tx.QueryRow(ctx, `INSERT INTO tickets (title) VALUES ($1) RETURNING id, title`, title).Scan(&t.ID, &t.Title)
					return t, err
				})
				if err != nil {
					return fmt.Errorf("call %d: %w", i, err)
				}
				opened = append(opened, result)
			}
			return nil
		})
		for _, result := range opened {
			if err == nil {
				fmt.Println(result.Value.Title, "replayed:", result.Replayed)
			}
		}
		return err
	}
	if err := openAll("printer on fire", ""); err != nil {
		fmt.Println("failed; rows:", exampleCount(pool, "tickets"))
	}
	if err := openAll("printer on fire", "paper jam"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("rows:", exampleCount(pool, "tickets"))

	// Output:
	// failed; rows: 0
	// printer on fire replayed: false
	// paper jam replayed: false
	// rows: 2
}
