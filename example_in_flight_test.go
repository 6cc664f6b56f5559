package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

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
