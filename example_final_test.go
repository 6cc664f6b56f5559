package dedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// CardDeclined is a refusal with a code and details, which the record keeps.
type CardDeclined struct {
	Limit int `json:"limit"`
}

func (e *CardDeclined) Error() string { return "card declined" }
func (e *CardDeclined) Code() string  { return "card_declined" }

// MarshalJSON gives the details.
func (e *CardDeclined) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]int{"limit": e.Limit})
}

// A refusal that is wrapped by Final is the call's answer: the effect is rolled
// back, and every later caller gets the same refusal without running it.
func ExampleFinal() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE charges (cents int)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	for range 2 {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "charge", Key: "order-117"},
			func(ctx context.Context, tx pgx.Tx) (int, error) {
				if _, err := tx.Exec(ctx, `INSERT INTO charges VALUES (9900)`); err != nil {
					return 0, err
				}
				return 0, dedup.Final(&CardDeclined{Limit: 5000})
			})
		var refused *dedup.RefusedError
		if errors.As(err, &refused) {
			fmt.Println(refused.Message, refused.Code, string(refused.Details), "replayed:", refused.Replayed)
		}
		// The effect's own error is there for the caller that ran it.
		var declined *CardDeclined
		fmt.Println("own error:", errors.As(err, &declined))
	}
	fmt.Println("charges:", exampleCount(pool, "charges"))

	// Output:
	// card declined card_declined {"limit":5000} replayed: false
	// own error: true
	// card declined card_declined {"limit":5000} replayed: true
	// own error: false
	// charges: 0
}
