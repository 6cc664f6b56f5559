package external

import (
	"context"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
)

// Parked yields the operations that are parked, and those that happened twice, the oldest
// first. A page of 100 is read at a time. After an error, which is the database's, it ends.
func (x *Tools) Parked(ctx context.Context) iter.Seq2[Operation, error] {
	return pages(func(last Operation) ([]Operation, error) { return x.parked(ctx, x.pool, last, 100) })
}

// ParkedTx returns a page of what [Tools.Parked] yields, for those who list it in their own
// transaction, with limits of their own: at most limit operations, which come after one that
// has the ChangedAt, Scope, Tool and Key of after. The zero Operation comes before all. The
// error is the database's.
func (x *Tools) ParkedTx(ctx context.Context, tx pgx.Tx, after Operation, limit int) ([]Operation, error) {
	return x.parked(ctx, tx, after, limit)
}

func (x *Tools) parked(ctx context.Context, on querier, after Operation, limit int) ([]Operation, error) {
	return operations(on.Query(ctx, x.sql().parked, after.ChangedAt, after.Scope, after.Tool, after.Key, int64(limit)))
}

// Open yields the operations that are older than a time and have no answer, and that nobody
// has parked: pending and running ones, the oldest first. A page of 100 is read at a time, and
// sorted by the server, since no index is by their age. After an error, which is the
// database's, it ends.
func (x *Tools) Open(ctx context.Context, olderThan time.Duration) iter.Seq2[Operation, error] {
	return pages(func(last Operation) ([]Operation, error) { return x.openAfter(ctx, x.pool, last, olderThan, 100) })
}

// OpenTx returns a page of what [Tools.Open] yields, as [Tools.ParkedTx] does: those that come
// after one that has the CreatedAt, Scope, Tool and Key of after.
func (x *Tools) OpenTx(ctx context.Context, tx pgx.Tx, after Operation, olderThan time.Duration, limit int) ([]Operation, error) {
	return x.openAfter(ctx, tx, after, olderThan, limit)
}

func (x *Tools) openAfter(ctx context.Context, on querier, after Operation, olderThan time.Duration, limit int) ([]Operation, error) {
	return operations(on.Query(ctx, x.sql().open, after.CreatedAt, after.Scope, after.Tool, after.Key, int64(limit), olderThan))
}

// pages yields the operations of every page, each of which comes after the last of the one
// before it.
func pages(read func(last Operation) ([]Operation, error)) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		var last Operation
		for {
			ops, err := read(last)
			if err != nil {
				yield(Operation{}, err)
				return
			}
			for _, op := range ops {
				if !yield(op, nil) {
					return
				}
				last = op
			}
			if len(ops) == 0 {
				return
			}
		}
	}
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
