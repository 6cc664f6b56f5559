package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// The same key with other arguments is neither run nor replayed. The error names
// the arguments that differ, never their values.
func ExampleKeyReusedError() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	type refund struct {
		Order string `json:"order"`
		Cents int    `json:"cents"`
		Note  string `json:"note,omitempty"`
	}
	for _, in := range []refund{
		{Order: "A-117", Cents: 500},
		{Order: "A-117", Cents: 700, Note: "sorry"},
	} {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "refund", Key: "k1", Args: in},
			func(ctx context.Context, tx pgx.Tx) (string, error) { return "refunded", nil })

		var reused *dedup.KeyReusedError
		if errors.As(err, &reused) {
			fmt.Println("reused:", reused.Tool, reused.Changed, "complete:", reused.Complete)
		} else {
			fmt.Println("error:", err)
		}
	}

	// Output:
	// error: <nil>
	// reused: refund [cents note] complete: true
}
