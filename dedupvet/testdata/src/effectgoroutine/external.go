package effectgoroutine

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup/external"
)

var pays = external.Tool[string, int]{
	Perform: func(ctx context.Context, a external.Attempt, in string) (int, error) {
		done := make(chan int)
		go func() { done <- len(in) }()
		return <-done, nil
	},
	Finish: func(ctx context.Context, tx pgx.Tx, in string, out int) error {
		go tx.Exec(ctx, "INSERT") // want `a goroutine uses the transaction in an effect`
		return nil
	},
}
