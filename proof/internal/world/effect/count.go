package effect

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Querier is a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Counts returns how many effects each call has had since the last reset, by
// call_ref. A call without any is absent.
func Counts(ctx context.Context, db Querier) (map[string]int, error) {
	rows, err := db.Query(ctx, `
		SELECT call_ref, count(*)
		FROM effects
		GROUP BY call_ref`)
	if err != nil {
		return nil, fmt.Errorf("counting effects: %w", err)
	}
	counts := map[string]int{}
	var ref string
	var count int
	_, err = pgx.ForEachRow(rows, []any{&ref, &count}, func() error {
		counts[ref] = count
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("counting effects: %w", err)
	}
	return counts, nil
}
