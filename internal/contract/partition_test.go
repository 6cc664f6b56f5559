package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// partition makes tool_dedup a table with two hash partitions.
func (b *bundle) partition(t *testing.T) {
	t.Helper()
	for _, sql := range []string{
		`ALTER TABLE tool_dedup RENAME TO whole`,
		`CREATE TABLE tool_dedup (LIKE whole INCLUDING DEFAULTS INCLUDING CONSTRAINTS, PRIMARY KEY (scope, tool, key)) PARTITION BY HASH (scope)`,
		`CREATE TABLE tool_dedup_0 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 0)`,
		`CREATE TABLE tool_dedup_1 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
	} {
		b.exec(t, sql)
	}
}

// TestPartitioned: errors name the partition and not the table, and mean the
// same.
func TestPartitioned(t *testing.T) {
	t.Parallel()

	t.Run("EffectEndsItsTx", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			ctx, f := v.setup(t, nil)
			f.partition(t)
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, err := tx.Conn().Exec(ctx, "commit; begin")
				return err
			}}
			for range 2 {
				_, err := dedup.Do(ctx, f.d, call("k"), e.run)
				require.ErrorIs(t, err, dedup.ErrBroken)
			}
			e.requireRuns(t, 1)
			require.Equal(t, 1, f.effects(t, "k"))
		})
	})

	t.Run("LostRace", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		f.partition(t)
		e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
			return f.rival(ctx, call("k"), "k", ticket{ID: 99})
		}}
		got, err := dedup.Do(ctx, f.d, call("k"), e.run)
		require.NoError(t, err)
		require.True(t, got.Replayed)
		require.Equal(t, 99, got.Value.ID)
		require.Equal(t, 1, f.effects(t, "k"))
	})
}
