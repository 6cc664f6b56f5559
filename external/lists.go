package external

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Parked returns the operations that are parked, and those that happened twice, the oldest first: at most limit, which
// come after one that has the ChangedAt, Scope, Tool and Key of after. The zero Operation comes before all. on is a pool,
// or a transaction with limits of its own. The error is the database's.
func (x *Tools) Parked(ctx context.Context, on querier, after Operation, limit int) ([]Operation, error) {
	return operations(on.Query(ctx, x.sql.parked, after.ChangedAt, after.Scope, after.Tool, after.Key, int64(limit)))
}

// Open returns the operations that are older than a time and have no answer, and that nobody has parked: pending and
// running ones, the oldest first. They are paged as those of [Tools.Parked] are, by CreatedAt, and sorted by the server,
// since no index is by their age.
func (x *Tools) Open(ctx context.Context, on querier, after Operation, olderThan time.Duration, limit int) ([]Operation, error) {
	return operations(on.Query(ctx, x.sql.open, after.CreatedAt, after.Scope, after.Tool, after.Key, int64(limit), olderThan))
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
