package dedup_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// callAgain calls until there is an answer, with the same key and growing
// pauses. Each try has its own time limit; what must not change is the call.
func callAgain(ctx context.Context, d *dedup.Deduper, call dedup.Call, effect dedup.Effect[string]) (dedup.Result[string], error) {
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
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

// IsRetryable tells errors after which the same call may still be answered from
// those that are the answer.
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
