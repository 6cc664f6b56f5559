package tool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool"
)

// BookIn has the arguments of book_seat.
type BookIn struct {
	Flight string `json:"flight"`
	Note   string `json:"note,omitempty" dedup:"ignore"`
}

// Booking is the result of book_seat.
type Booking struct {
	ID     int    `json:"id"`
	Flight string `json:"flight"`
}

func bookSeat(ctx context.Context, tx pgx.Tx, in BookIn) (out Booking, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO bookings (flight) VALUES ($1) RETURNING id, flight`, in.Flight).Scan(&out.ID, &out.Flight)
	return out, err
}

func countSeats(ctx context.Context, tx pgx.Tx, in BookIn) (n int, err error) {
	err = tx.QueryRow(ctx, `SELECT count(*) FROM bookings WHERE flight = $1`, in.Flight).Scan(&n)
	return n, err
}

// A model is shown the two schemas of a tool.
func ExampleInfo_InputSchema() {
	d, done := exampleDeduper()
	defer done()

	tools := tool.NewRegistry(d, nil)
	exampleMust(tools.Add(tool.Tool[BookIn, Booking]{Name: "book_seat", Class: tool.Write, Run: bookSeat}))
	info, _ := tools.Lookup("book_seat")

	in, err := info.InputSchema()
	exampleMust(err)
	fmt.Println(string(in))
	out, err := info.OutputSchema()
	exampleMust(err)
	fmt.Println(string(out))
	// Output:
	// {"type":"object","properties":{"flight":{"type":"string"},"note":{"type":"string"}},"required":["flight"],"additionalProperties":false}
	// {"type":"object","properties":{"id":{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807},"flight":{"type":"string"}}}
}

// A model's call is delivered twice, and the second note has other words.
func ExampleRegistry_Invoke() {
	ctx := context.Background()
	d, done := exampleDeduper()
	defer done()

	tools := tool.NewRegistry(d, nil)
	exampleMust(tools.Add(
		tool.Tool[BookIn, Booking]{Name: "book_seat", Class: tool.Write, Run: bookSeat},
		tool.Tool[BookIn, int]{Name: "count_seats", Class: tool.ReadOnly, Run: countSeats},
	))

	for _, args := range []string{`{"flight":"HAT170","note":"by the window"}`, `{"note":"window seat","flight":"HAT170"}`} {
		answer, err := tools.Invoke(ctx, tool.Invocation{
			Scope: "acme", Session: "conversation 17", Turn: 4, CallID: "call_0",
			Tool: "book_seat", Args: json.RawMessage(args),
		})
		exampleMust(err)
		fmt.Println(string(answer.JSON), "replayed:", answer.Replayed)
	}
	answer, err := tools.Invoke(ctx, tool.Invocation{Tool: "count_seats", Args: json.RawMessage(`{"flight":"HAT170"}`)})
	exampleMust(err)
	fmt.Println(string(answer.JSON), "booked")

	_, err = tools.Invoke(ctx, tool.Invocation{Scope: "acme", Tool: "book_seat", Key: "k", Args: json.RawMessage(`{"fligth":"HAT170"}`)})
	fmt.Println(err)
	// Output:
	// {"id":1,"flight":"HAT170"} replayed: false
	// {"id":1,"flight":"HAT170"} replayed: true
	// 1 booked
	// tool: argument fligth of book_seat is unknown
}

// The provider gives the calls of a message no ids. The message is delivered, and then its second
// half again.
func ExampleRegistry_InvokeAll() {
	ctx := context.Background()
	d, done := exampleDeduper()
	defer done()

	tools := tool.NewRegistry(d, nil)
	exampleMust(tools.Add(tool.Tool[BookIn, Booking]{Name: "book_seat", Class: tool.Write, Run: bookSeat}))

	var message []tool.Invocation
	for _, flight := range []string{"HAT170", "HAT021"} {
		message = append(message, tool.Invocation{
			Scope: "acme", Session: "conversation 17", Turn: 4, CallID: "null",
			Tool: "book_seat", Args: json.RawMessage(`{"flight":"` + flight + `"}`),
		})
	}
	for _, calls := range [][]tool.Invocation{message, message[1:]} {
		for _, outcome := range tools.InvokeAll(ctx, calls) {
			exampleMust(outcome.Err)
			fmt.Println(string(outcome.Answer.JSON), "replayed:", outcome.Answer.Replayed)
		}
	}
	// Output:
	// {"id":1,"flight":"HAT170"} replayed: false
	// {"id":2,"flight":"HAT021"} replayed: false
	// {"id":2,"flight":"HAT021"} replayed: true
}

// exampleDeduper returns a Deduper on an example's database. done closes the Deduper and drops the
// database.
func exampleDeduper() (*dedup.Deduper, func()) {
	pool, done := pgtest.Example(`CREATE TABLE bookings (id int GENERATED ALWAYS AS IDENTITY, flight text)`)
	d, err := dedup.New(pool, nil)
	exampleMust(err)
	return d, done
}

func exampleMust(err error) {
	if err != nil {
		panic(err)
	}
}
