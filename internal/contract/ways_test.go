package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// A way makes a call whose effect leaves one row for its key.
type way func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error)

// ways are the functions that commit a transaction of the library.
var ways = map[string]way{"Do": byDo, "DoStatement": byStatement, "DoBatch": byBatchOfTwo}

func byDo(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
	return dedup.Do(ctx, d, c, effectOf(single(c.Key)))
}

func byStatement(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
	return dedup.DoStatement[ticket](ctx, d, c, leave(c.Key))
}

// byBatchOfTwo has another call in the batch.
func byBatchOfTwo(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
	other := c
	other.Key += " beside"
	out := outcomes(ctx, d, dedup.StatementCall{Call: c, Statement: leave(c.Key)}, dedup.StatementCall{Call: other, Statement: leave(other.Key)})
	return out[0].Result, errors.Join(out[0].Err, out[len(out)-1].Err) // of an ended context there is one
}

func byTx(ctx context.Context, d *dedup.Deduper, c dedup.Call) (result dedup.Result[ticket], err error) {
	err = d.BeginFunc(ctx, func(tx pgx.Tx) (err error) {
		result, err = dedup.DoTx(ctx, d, tx, c, effectOf(single(c.Key)))
		return err
	})
	return result, err
}

// start makes a call on another goroutine.
func (w way) start(ctx context.Context, d *dedup.Deduper, c dedup.Call) <-chan answered {
	return startBy(func(ctx context.Context, d *dedup.Deduper, c dedup.Call, _ dedup.Effect[ticket]) (dedup.Result[ticket], error) {
		return w(ctx, d, c)
	}, ctx, d, c, nil)
}

// requireReplays makes a call twice in each way.
func requireReplays(t *testing.T, ctx context.Context, d *dedup.Deduper, ways ...way) {
	t.Helper()
	for i, do := range ways {
		for _, replayed := range []bool{false, true} {
			got, err := do(ctx, d, call(fmt.Sprint("way ", i)))
			require.NoError(t, err)
			require.Equal(t, replayed, got.Replayed)
		}
	}
}

// effectOf is a statement as an effect.
func effectOf(c dedup.StatementCall) dedup.Effect[ticket] {
	return func(ctx context.Context, tx pgx.Tx) (made ticket, err error) {
		err = tx.QueryRow(ctx, c.Statement.SQL, c.Statement.Args...).Scan(&made.ID, &made.Title)
		return made, err
	}
}

// atRecord aims at the unit that commits a call's record.
func atRecord(u faultproxy.Unit) bool { return u.Commits }
