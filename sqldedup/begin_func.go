package sqldedup

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// BeginFunc is [dedup.Deduper.BeginFunc] for database/sql. It begins a transaction on the Deduper's
// pool and calls fn with a handle on it. fn makes calls with [DoTx].
//
// BeginFunc commits if fn returns nil or a refusal of one of these calls, and rolls back after any
// other error. After [dedup.ErrRestartTx] or a transient error it runs fn again in a new
// transaction. The errors, and the effect of cancelling ctx, are those of Deduper.BeginFunc.
//
// The handle has the rules of [Handle]: fn ends the transaction by returning. ctx may end:
// database/sql does not roll back then.
func BeginFunc[H Handle](ctx context.Context, d *dedup.Deduper, fn func(handle H) error) error {
	if fn == nil {
		return &dedup.InvalidError{What: "call", Field: "fn", Missing: true, Reason: "must not be nil"}
	}
	return d.BeginFunc(ctx, func(tx pgx.Tx) error {
		_, err := Run(ctx, tx, func(_ context.Context, handle H) (struct{}, error) { return struct{}{}, fn(handle) })
		return err
	})
}
