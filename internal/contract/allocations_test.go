package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestAllocations bounds the allocations of a first call, including those of its effect and of the
// caller's BEGIN and COMMIT. pgx's batches instead of the library's pipelines would cost thirty per
// statement.
func TestAllocations(t *testing.T) { //nolint:paralleltest // what others allocate would be counted
	ctx, f := plain.setup(t, nil, poolOfOne)
	insert := dedup.SQL(`INSERT INTO effects (ref) VALUES ($1) RETURNING 1 AS id, ref AS title`, "x")
	e := func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, "x")
		return 1, err
	}
	n := 0
	for _, way := range []struct {
		name string
		most float64
		call func(c dedup.Call) error
	}{
		{"Do", 62, func(c dedup.Call) error { _, err := dedup.Do(ctx, f.d, c, e); return err }},
		{"DoStatement", 90, func(c dedup.Call) error { _, err := dedup.DoStatement[ticket](ctx, f.d, c, insert); return err }},
		{"DoTx", 90, func(c dedup.Call) error {
			return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error { _, err := dedup.DoTx(ctx, f.d, tx, c, e); return err })
		}},
		{"BeginFunc", 90, func(c dedup.Call) error {
			return f.d.BeginFunc(ctx, func(tx pgx.Tx) error { _, err := dedup.DoTx(ctx, f.d, tx, c, e); return err })
		}},
	} {
		calls := make([]dedup.Call, 120)
		for i := range calls {
			calls[i] = call(fmt.Sprint(way.name, i))
		}
		run := func() {
			require.NoError(t, way.call(calls[n%len(calls)]))
			n++
		}
		n = 0
		for range 10 {
			run() // prepares statements
		}
		got := testing.AllocsPerRun(100, run)
		t.Log(way.name, got)
		require.LessOrEqual(t, got, way.most, way.name)
	}
}
