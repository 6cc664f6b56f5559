package external

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier reads the lists: a pool, or a transaction with its own limits.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List selects a page of operations.
type List struct {
	// Scopes are the scopes whose operations are listed; nil means all.
	Scopes []string
	// OlderThan is the least age of an operation in [Tools.Open]. [Tools.Parked] ignores it.
	OlderThan time.Duration
	// After is the last operation of the page before. The zero Operation precedes all.
	After Operation
	// Limit is the most operations on the page.
	Limit int
}

// Parked returns the operations that are parked and those that happened twice, the oldest first. A
// page begins after the ChangedAt, Scope, Tool and Key of list.After. The error is the database's.
func (x *Tools) Parked(ctx context.Context, on Querier, list List) ([]Operation, error) {
	at := list.After
	return operations(on.Query(ctx, x.sql.parked, at.ChangedAt, at.Scope, at.Tool, at.Key, int64(list.Limit), list.Scopes))
}

// Open returns the operations that are pending or running, the oldest first. It also returns those
// whose record is gone and whose key is blocked until a last look-up. A page begins after the
// CreatedAt, Scope, Tool and Key of list.After. The server sorts all of them, because no index is
// by age. The error is the database's.
func (x *Tools) Open(ctx context.Context, on Querier, list List) ([]Operation, error) {
	at := list.After
	return operations(on.Query(ctx, x.sql.open, at.CreatedAt, at.Scope, at.Tool, at.Key, int64(list.Limit), list.Scopes, list.OlderThan))
}

func operations(found pgx.Rows, err error) ([]Operation, error) {
	rows, err := collect(found, err)
	if err != nil {
		return nil, wrap("listing", err)
	}
	ops := make([]Operation, len(rows))
	for i, r := range rows {
		ops[i] = r.operation()
	}
	return ops, nil
}
