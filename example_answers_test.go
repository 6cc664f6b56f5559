package dedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

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

// A refusal that is wrapped by Final is the call's answer: the effect is rolled back, and every
// later caller gets the same refusal without running it.
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

// By default an error stores nothing and the next try runs. A tool that must not be tried twice
// stores every error, as if each were wrapped by Final.
func ExampleCall_storeErrors() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	runs := 0
	effect := func(ctx context.Context, tx pgx.Tx) (string, error) {
		runs++
		return "", errors.New("no such account")
	}
	for range 2 {
		_, err := dedup.Do(ctx, d, dedup.Call{
			Scope: "acme", Tool: "close_account", Key: "k1", StoreErrors: true,
		}, effect)
		fmt.Println(err, "refused:", errors.Is(err, dedup.ErrRefused), "runs:", runs)
	}

	// By default they are not stored.
	for range 2 {
		_, err := dedup.Do(ctx, d, dedup.Call{
			Scope: "acme", Tool: "close_account", Key: "k2",
		}, effect)
		fmt.Println(err, "refused:", errors.Is(err, dedup.ErrRefused), "runs:", runs)
	}

	// Output:
	// no such account refused: true runs: 1
	// no such account refused: true runs: 1
	// no such account refused: false runs: 2
	// no such account refused: false runs: 3
}

// A call is replayed, then refused as expired, then forgotten.
func ExampleRetention() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, &dedup.Options{
		Retention: dedup.Retention{Result: time.Hour}, // for calls that name none
	})
	if err != nil {
		log.Fatal(err)
	}

	days := func(from, to time.Time) float64 { return to.Sub(from).Round(time.Minute).Hours() / 24 }
	for _, kept := range []struct {
		name string
		dedup.Retention
	}{
		{"interactive", dedup.Retention{}},
		{"task", dedup.Retention{Result: 24 * time.Hour}},
		{"batch", dedup.Retention{Result: 7 * 24 * time.Hour}},
		{"financial", dedup.Retention{Result: 30 * 24 * time.Hour}},
		{"own", dedup.Retention{Result: 36 * time.Hour, Tombstone: 7 * 24 * time.Hour}},
		{"no tombstone", dedup.Retention{Result: 12 * time.Hour, Tombstone: -1}},
	} {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "pay", Key: kept.name, Retention: kept.Retention},
			func(ctx context.Context, tx pgx.Tx) (string, error) { return "paid", nil })
		if err != nil {
			log.Fatal(err)
		}
		status, err := d.Lookup(ctx, "acme", "pay", kept.name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: replayed for %.4g days, refused for %.4g more\n",
			kept.name, days(status.CreatedAt, status.ExpiresAt), days(status.ExpiresAt, status.ForgetAt))
	}

	exampleTimePasses(pool, "2 days")
	_, err = dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "pay", Key: "task"},
		func(ctx context.Context, tx pgx.Tx) (string, error) { return "paid twice", nil })
	fmt.Println("task, two days later, expired:", errors.Is(err, dedup.ErrExpired))

	// Output:
	// interactive: replayed for 0.04167 days, refused for 30 more
	// task: replayed for 1 days, refused for 30 more
	// batch: replayed for 7 days, refused for 30 more
	// financial: replayed for 30 days, refused for 30 more
	// own: replayed for 1.5 days, refused for 7 more
	// no tombstone: replayed for 0.5 days, refused for 0 more
	// task, two days later, expired: true
}

// Lookup shows the state of a call without calling again.
func ExampleDeduper_Lookup() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	look := func(when string) {
		status, err := d.Lookup(ctx, "acme", "export", "k1")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s, result %q\n", when, status.State, string(status.Result))
	}

	look("before")
	_, err = dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "export", Key: "k1"},
		func(ctx context.Context, tx pgx.Tx) (map[string]int, error) {
			look("during")
			return map[string]int{"rows": 3}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	look("after")
	exampleTimePasses(pool, "2 days")
	look("two days later")

	// Output:
	// before: not_found, result ""
	// during: in_flight, result ""
	// after: done, result "{\"rows\":3}"
	// two days later: expired, result ""
}
