package external

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier reads the lists: a pool, or a transaction with limits of its own.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List is a page of a list of operations.
type List struct {
	// Scopes are those whose operations are listed; nil means all.
	Scopes []string
	// OlderThan is how old an operation of [Tools.Open] is at least. [Tools.Parked] does not use it.
	OlderThan time.Duration
	// After is the last operation of the page before. The zero Operation comes before all.
	After Operation
	// Limit is how many operations the page has at most.
	Limit int
}

// Parked returns the operations that are parked, and those that happened twice, the oldest first. A page begins after the
// ChangedAt, Scope, Tool and Key of list.After. The error is the database's.
func (x *Tools) Parked(ctx context.Context, on Querier, list List) ([]Operation, error) {
	at := list.After
	return operations(on.Query(ctx, x.sql.parked, at.ChangedAt, at.Scope, at.Tool, at.Key, int64(list.Limit), list.Scopes))
}

// Open returns the operations that are pending or running, and those whose record is forgotten and whose key is blocked by a
// look that is still due, the oldest first. A page begins after the CreatedAt, Scope,
// Tool and Key of list.After. The server sorts them, since no index is by their age. The error is the database's.
func (x *Tools) Open(ctx context.Context, on Querier, list List) ([]Operation, error) {
	at := list.After
	return operations(on.Query(ctx, x.sql.open, at.CreatedAt, at.Scope, at.Tool, at.Key, int64(list.Limit), list.Scopes, list.OlderThan))
}

func operations(found pgx.Rows, err error) ([]Operation, error) {
	rows, err := collect(found, err)
	if err != nil {
		return nil, failed("listing", err)
	}
	ops := make([]Operation, len(rows))
	for i, r := range rows {
		ops[i] = r.operation()
	}
	return ops, nil
}
