package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func lookFirst(key string) dedup.Call {
	c := call(key)
	c.LookFirst = true
	return c
}

// TestLookFirst: a replay costs one round trip, a first call four.
func TestLookFirst(t *testing.T) {
	t.Parallel()

	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
			t.Run(order.String()+"-"+mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, variant{order: order, isolation: pgx.ReadCommitted, mode: mode}, nil)
				e := &tool{ref: "k"}
				do := func(key string, replayed bool) func() {
					return func() {
						result, err := dedup.Do(ctx, f.d, lookFirst(key), e.run)
						require.NoError(t, err)
						require.Equal(t, replayed, result.Replayed)
						require.False(t, result.Recovered)
						if replayed {
							require.Zero(t, result.Attempts, "no transaction was opened")
						}
					}
				}
				do("warm", false)()
				do("warm", true)()
				require.Equal(t, 4, trips(t, proxy, do("k", false)), "first call")
				require.Equal(t, 1, trips(t, proxy, do("k", true)), "replay")
				e.requireRuns(t, 2)
				require.Equal(t, 2, f.records(t))
			})
		}
	}
}

// TestLookFirstAnswers: what a look finds is judged like any record.
func TestLookFirstAnswers(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	e := &tool{ref: "k"}
	_, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)

	other := lookFirst("k")
	other.Args = "something else"
	_, err = dedup.Do(ctx, f.d, other, e.run)
	require.ErrorIs(t, err, dedup.ErrKeyReused)

	f.age(t, "k", "25 hours")
	_, err = dedup.Do(ctx, f.d, lookFirst("k"), e.run)
	require.ErrorIs(t, err, dedup.ErrExpired)

	f.age(t, "k", "31 days")
	again, err := dedup.Do(ctx, f.d, lookFirst("k"), e.run)
	require.NoError(t, err)
	require.False(t, again.Replayed, "a forgotten record does not count")

	_, err = dedup.Do(ctx, f.d, lookFirst("final"), declines)
	require.ErrorIs(t, err, dedup.ErrRefused)
	var refused *dedup.RefusedError
	_, err = dedup.Do(ctx, f.d, lookFirst("final"), declines)
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.Replayed)
	e.requireRuns(t, 2)
}

// TestLookFirstTwins: the look decides nothing, and twins are twins.
func TestLookFirstTwins(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	peer := f.peer(t)
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	first := start(ctx, f.d, lookFirst("k"), e.run)
	receive(t, ctx, held.entered)
	here, there := start(ctx, f.d, lookFirst("k"), e.run), start(ctx, peer, lookFirst("k"), e.run)
	require.NoError(t, f.events.untilWaiting(ctx, 1, 1))
	held.release()
	requireTwins(t, []dedup.Result[ticket]{receive(t, ctx, first).require(t), receive(t, ctx, here).require(t), receive(t, ctx, there).require(t)})
	e.requireRuns(t, 1)
}

// TestLookFirstWithoutATable leaves it to the attempt to say what is wrong.
func TestLookFirstWithoutATable(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.exec(t, `DROP TABLE tool_dedup`)
	e := &tool{ref: "k"}
	_, err := dedup.Do(ctx, f.d, lookFirst("k"), e.run)
	require.ErrorIs(t, err, dedup.ErrArbiter)
	e.requireRuns(t, 0)
}

func declines(context.Context, pgx.Tx) (ticket, error) {
	return ticket{}, dedup.Final(declined{Balance: 3})
}
