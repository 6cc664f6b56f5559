package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// By default an error stores nothing and the next try runs. A tool that must not
// be tried twice stores every error, as if each were wrapped by Final.
func ExampleOptions_storeErrors() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, &dedup.Options{StoreErrors: true})
	if err != nil {
		log.Fatal(err)
	}

	runs := 0
	effect := func(ctx context.Context, tx pgx.Tx) (string, error) {
		runs++
		return "", errors.New("no such account")
	}
	for range 2 {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "close_account", Key: "k1"}, effect)
		fmt.Println(err, "refused:", errors.Is(err, dedup.ErrRefused), "runs:", runs)
	}

	// One call can choose for itself.
	for range 2 {
		_, err := dedup.Do(ctx, d, dedup.Call{
			Scope: "acme", Tool: "close_account", Key: "k2", Errors: dedup.ErrorsRollBack,
		}, effect)
		fmt.Println(err, "refused:", errors.Is(err, dedup.ErrRefused), "runs:", runs)
	}

	// Output:
	// no such account refused: true runs: 1
	// no such account refused: true runs: 1
	// no such account refused: false runs: 2
	// no such account refused: false runs: 3
}
