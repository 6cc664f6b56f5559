package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestLongStorms makes many calls at once on pools of few connections. Every call has an answer,
// and each effect happens once.
func TestLongStorms(t *testing.T) {
	t.Parallel()
	for _, conns := range []int32{2, 3, 4, 6, 8} {
		t.Run(fmt.Sprint("PoolOf", conns), func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, nil, func(config *pgxpool.Config) { config.MaxConns = conns })
			f.stormOfTwins(t, ctx)
			f.stormOfTools(t, ctx)
		})
	}
}

// stormOfTwins calls one key 200 times. While the effect runs and the twins wait, calls of other
// keys are answered.
func (f *fixture) stormOfTwins(t *testing.T, ctx context.Context) {
	t.Helper()
	const twins, others = 200, 50
	_, land := f.inFlight(t, ctx, f.d, call("storm"))
	var pending []<-chan answered
	for range twins - 1 {
		pending = append(pending, f.start(ctx, f.d, call("storm"), effect("storm")))
	}
	require.NoError(t, f.events.untilWaiting(ctx, twins-1, 0))
	for i := range others {
		other, err := byDo(ctx, f.d, call(fmt.Sprint("other ", i)))
		require.NoError(t, err)
		require.False(t, other.Replayed)
	}
	answers := []dedup.Result[ticket]{land()}
	for _, one := range pending {
		answers = append(answers, receive(t, ctx, one).require(t))
	}
	requireTwins(t, answers)
	require.Equal(t, 1, f.effects(t, "storm"))
}

// stormOfTools calls 60 tools at once, each four times. The effect of each calls another tool in
// its transaction.
func (f *fixture) stormOfTools(t *testing.T, ctx context.Context) {
	t.Helper()
	const tools, callers = 60, 4
	pending := make([][]<-chan answered, tools)
	for i := range tools {
		outer, inner := call(fmt.Sprint("outer ", i)), call(fmt.Sprint("inner ", i))
		outer.Tool, inner.Tool = fmt.Sprint("tool_", i), "inner"
		for range callers {
			pending[i] = append(pending[i], f.start(ctx, f.d, outer, func(ctx context.Context, tx pgx.Tx) (ticket, error) {
				if _, err := dedup.DoTx(ctx, f.d, tx, inner, effectOf(single(inner.Key))); err != nil {
					return ticket{}, err
				}
				return effectOf(single(outer.Key))(ctx, tx)
			}))
		}
	}
	for _, callers := range pending {
		var answers []dedup.Result[ticket]
		for _, one := range callers {
			answers = append(answers, receive(t, ctx, one).require(t))
		}
		requireTwins(t, answers)
	}
	require.Equal(t, 2*tools, scalar[int](t, f.bundle, `SELECT count(*) FROM effects WHERE ref ~ '^(outer|inner)'`))
	require.Equal(t, 2*tools, scalar[int](t, f.bundle, `SELECT count(DISTINCT ref) FROM effects WHERE ref ~ '^(outer|inner)'`))
}
