package contract_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestDoTxDeadlock crosses two transactions: Postgres ends one of them, and its
// second run has the answers of the other.
func TestDoTxDeadlock(t *testing.T) {
	t.Parallel()

	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		t.Run(order.String(), func(t *testing.T) {
			t.Parallel()
			v := variant{order: order, isolation: pgx.ReadCommitted}
			ctx, f := v.setup(t, nil, func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams["deadlock_timeout"] = "20ms"
			})
			a, b := &tool{ref: "a"}, &tool{ref: "b"}
			both := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
			cross := func(i int, one, two *tool) (restarts int, values [2]int, err error) {
				for {
					tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
					if err != nil {
						return restarts, values, err
					}
					values = [2]int{}
					for j, e := range []*tool{one, two} {
						var result dedup.Result[ticket]
						result, err = dedup.DoTx(ctx, f.d, tx, call(e.ref), e.run)
						if err != nil {
							break
						}
						values[(i+j)%2] = result.Value.ID
						if restarts == 0 && j == 0 {
							close(both[i])
							<-both[1-i]
						}
					}
					if err == nil {
						return restarts, values, tx.Commit(ctx)
					}
					_ = tx.Rollback(ctx)
					if !isRestart(err) {
						return restarts, values, err
					}
					restarts++
				}
			}
			type crossing struct {
				restarts int
				values   [2]int
				err      error
			}
			ab, ba := make(chan crossing, 1), make(chan crossing, 1)
			go func() { r, v, err := cross(0, a, b); ab <- crossing{r, v, err} }()
			go func() { r, v, err := cross(1, b, a); ba <- crossing{r, v, err} }()
			first, second := receive(t, ctx, ab), receive(t, ctx, ba)
			require.NoError(t, first.err)
			require.NoError(t, second.err)
			require.Positive(t, first.restarts+second.restarts)
			require.Equal(t, first.values, second.values)
			require.Equal(t, 1, f.effects(t, "a"))
			require.Equal(t, 1, f.effects(t, "b"))
			require.Equal(t, 2, f.records(t))
		})
	}
}

func isRestart(err error) bool { return errors.Is(err, dedup.ErrRestartTx) }
