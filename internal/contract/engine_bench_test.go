package contract_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// BenchmarkEngine measures each way to call, one client on loopback.
func BenchmarkEngine(b *testing.B) {
	ctx := b.Context()
	pool := pgtest.New(b).Pool(b)
	_, err := pool.Exec(ctx, `CREATE TABLE effects (ref text NOT NULL)`)
	require.NoError(b, err)
	d, err := dedup.New(pool, nil)
	require.NoError(b, err)
	n := 0
	stmt := dedup.SQL(`INSERT INTO effects (ref) VALUES ($1) RETURNING 1 AS id, ref AS title`, "x")
	key := func(kind string) dedup.Call { n++; return call(fmt.Sprint(kind, n)) }
	single := func(c dedup.Call) { _, err := dedup.DoStatement[ticket](ctx, d, c, stmt); require.NoError(b, err) }
	many := func(kind string, fresh bool) {
		calls := make([]dedup.StatementCall, 100)
		for i := range calls {
			c := call(fmt.Sprint(kind, i))
			if fresh {
				c = key(kind)
			}
			calls[i] = dedup.StatementCall{Call: c, Statement: stmt}
		}
		for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(calls), nil) {
			require.NoError(b, out.Err)
		}
	}
	inTx := func(c dedup.Call) {
		require.NoError(b, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, d, tx, c, func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, "x")
				return 1, err
			})
			return err
		}))
	}
	look := call("replayed")
	look.LookFirst = true
	single(call("replayed"))
	inTx(call("tx"))
	many("batch", false)
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"Statement", func() { single(key("s")) }},
		{"StatementReplay", func() { single(call("replayed")) }},
		{"LookFirst", func() { single(look) }},
		{"Tx", func() { inTx(key("t")) }},
		{"TxReplay", func() { inTx(call("tx")) }},
		{"Batch100", func() { many("b", true) }},
		{"Batch100Replay", func() { many("batch", false) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.run()
			}
		})
	}
}
