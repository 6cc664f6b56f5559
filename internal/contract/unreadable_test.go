package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestUnreadableRecord: a record that cannot be read is no missing one. Its
// effect is not run again.
func TestUnreadableRecord(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, nil)
		f.warm(t)
		f.exec(t, `UPDATE tool_dedup SET forget_at = 'infinity'`) // which no time.Time is

		runs := 0
		_, err := dedup.Do(ctx, f.d, call("warm"), func(context.Context, pgx.Tx) (ticket, error) {
			runs++
			return ticket{}, nil
		})
		require.ErrorContains(t, err, "infinite time")
		require.Zero(t, runs)
		require.Equal(t, 1, f.effects(t, "warm"))
	})
}
