package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// BenchmarkDo measures a first call and a replay beside the transaction that
// they replace, one client on loopback.
func BenchmarkDo(b *testing.B) {
	ctx := b.Context()
	pool := pgtest.New(b).Pool(b)
	_, err := pool.Exec(ctx, `CREATE TABLE effects (ref text NOT NULL)`)
	require.NoError(b, err)
	d, err := dedup.New(pool, nil)
	require.NoError(b, err)
	keys := 0
	insert := func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, "x")
		return 1, err
	}

	b.Run("Bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { _, err := insert(ctx, tx); return err })
			require.NoError(b, err)
		}
	})
	b.Run("First", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			keys++
			_, err := dedup.Do(ctx, d, call(fmt.Sprint("first ", keys)), insert)
			require.NoError(b, err)
		}
	})
	b.Run("Replay", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := dedup.Do(ctx, d, call("replayed"), insert)
			require.NoError(b, err)
		}
	})
}
