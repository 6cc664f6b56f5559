package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestSweepStuck: something on the table, such as a legal hold, keeps records
// that are due. The sweep ends although they stay due.
func TestSweepStuck(t *testing.T) {
	t.Parallel()

	for _, event := range []string{"DELETE", "UPDATE"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			bothOrders(t, func(t *testing.T, v variant) {
				ctx, f := v.setup(t, nil)
				f.fill(t, 3)
				if event == "DELETE" {
					f.forgetAll(t)
				}
				f.exec(t, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
				f.exec(t, `CREATE TRIGGER hold BEFORE `+event+` ON tool_dedup FOR EACH ROW EXECUTE FUNCTION hold()`)
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				got, err := f.d.Sweep(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, dedup.SweepResult{Batches: 1}, got)
				require.Equal(t, 3, f.records(t))

				f.exec(t, `DROP TRIGGER hold ON tool_dedup`)
				got, err = f.d.Sweep(ctx, nil)
				require.NoError(t, err)
				require.EqualValues(t, 3, got.Expired+got.Forgotten)
			})
		})
	}
}
