package sqldedup

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// BeginFunc is [dedup.Deduper.BeginFunc] for database/sql: it begins a transaction on the Deduper's
// pool and calls fn with a handle on it, in which fn makes calls with [DoTx]. It commits where fn
// returns nil or a refusal of one of these calls, rolls back after any other error, and runs fn
// again in a fresh transaction where [dedup.ErrRestartTx] or a transient fault asks for that. The
// errors, and what cancelling ctx does, are those of Deduper.BeginFunc.
//
// The handle is as [Handle] says: fn ends the transaction by returning. ctx may be the caller's as
// it is: database/sql rolls nothing back when it ends.
func BeginFunc[H Handle](ctx context.Context, d *dedup.Deduper, fn func(handle H) error) error {
	if fn == nil {
		return &dedup.InvalidError{What: "call", Field: "fn", Missing: true, Reason: "must not be nil"}
	}
	return d.BeginFunc(ctx, func(tx pgx.Tx) error {
		_, err := Run(ctx, tx, func(_ context.Context, handle H) (struct{}, error) { return struct{}{}, fn(handle) })
		return err
	})
}
