package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func caseMaxWaitNone(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	first := f.start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, held.entered)

	impatient := call("k")
	impatient.MaxWait = -1
	for _, d := range []*dedup.Deduper{f.d, f.peer(t)} {
		result, err := f.do(ctx, d, impatient, e.run)
		require.ErrorIs(t, err, dedup.ErrInFlight)
		require.True(t, dedup.IsRetryable(err))
		require.Zero(t, result.Waited)
	}
	require.Empty(t, events[dedup.WaitStartData](f.events))

	held.release()
	receive(t, ctx, first).require(t)
	result, err := f.do(ctx, f.d, impatient, e.run)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseMaxWaitBounded(t *testing.T, v variant) {
	const bound = 20 * time.Millisecond
	ctx, f := v.setup(t, &dedup.Options{MaxWait: bound})
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	first := f.start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, held.entered)

	for _, d := range []*dedup.Deduper{f.d, f.peer(t)} {
		result, err := f.do(ctx, d, call("k"), e.run)
		require.ErrorIs(t, err, dedup.ErrInFlight)
		require.GreaterOrEqual(t, result.Waited, bound)
	}
	waits := events[dedup.WaitedData](f.events)
	require.Len(t, waits, 2)
	for _, w := range waits {
		require.ErrorIs(t, w.Err, dedup.ErrInFlight)
		require.GreaterOrEqual(t, w.Waited, bound)
	}

	held.release()
	receive(t, ctx, first).require(t)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseWaitCancelled(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	first := f.start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, held.entered)

	impatience := errors.New("the user has gone")
	waiting, cancel := context.WithCancelCause(ctx)
	here := f.start(waiting, f.d, call("k"), e.run)
	there := f.start(waiting, f.peer(t), call("k"), e.run)
	require.NoError(t, f.events.untilWaiting(ctx, 1, 1))
	cancel(impatience)
	for _, twin := range []<-chan answered{here, there} {
		a := receive(t, ctx, twin)
		require.ErrorIs(t, a.err, context.Canceled)
		require.ErrorIs(t, a.err, impatience)
		require.NotErrorIs(t, a.err, dedup.ErrOutcomeUnknown)
	}

	held.release()
	receive(t, ctx, first).require(t)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

// followers starts a twin in the same process and one in another, and waits
// until both wait.
func (f *fixture) followers(t *testing.T, ctx context.Context, effect dedup.Effect[ticket]) []<-chan answered {
	t.Helper()
	twins := []<-chan answered{f.start(ctx, f.d, call("k"), effect), f.start(ctx, f.peer(t), call("k"), effect)}
	require.NoError(t, f.events.untilWaiting(ctx, 1, 1))
	return twins
}

func caseLeaderCancelled(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	leading, cancel := context.WithCancel(ctx)
	leader := f.start(leading, f.d, call("k"), (&tool{ref: "k", then: held.then}).run)
	receive(t, ctx, held.entered)

	e := &tool{ref: "k"}
	twins := f.followers(t, ctx, e.run)
	cancel()
	require.ErrorIs(t, receive(t, ctx, leader).err, context.Canceled)
	requireTwins(t, []dedup.Result[ticket]{receive(t, ctx, twins[0]).require(t), receive(t, ctx, twins[1]).require(t)})
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseLeaderPanics(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	leader := f.start(ctx, f.d, call("k"), (&tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
		_ = held.pass(ctx)
		panic("out of paper")
	}}).run)
	receive(t, ctx, held.entered)

	e := &tool{ref: "k"}
	twins := f.followers(t, ctx, e.run)
	held.release()
	require.Equal(t, "out of paper", receive(t, ctx, leader).panicked)
	requireTwins(t, []dedup.Result[ticket]{receive(t, ctx, twins[0]).require(t), receive(t, ctx, twins[1]).require(t)})
	require.Equal(t, 1, f.effects(t, "k"))
	f.eventually(t, `SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`)
}

func caseNested(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	inner := &tool{ref: "inner"}
	peer := f.peer(t)
	for name, d := range map[string]*dedup.Deduper{"SamePool": f.d, "OtherPool": peer} {
		e := &tool{ref: "outer", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
			_, err := f.do(ctx, d, call("inner"), inner.run)
			return err
		}}
		_, err := f.do(ctx, f.d, call(name), e.run)
		require.ErrorIs(t, err, dedup.ErrNested)
	}
	inner.requireRuns(t, 0)
	require.Zero(t, f.effects(t, "outer"))
	require.Zero(t, f.records(t))
}

// caseBornExpired has an effect that takes longer than its result is kept.
func caseBornExpired(t *testing.T, v variant) {
	ctx, f := v.setup(t, &dedup.Options{Retention: dedup.Retention{Result: 20 * time.Millisecond, Tombstone: time.Hour}})
	f.exec(t, `CREATE TABLE began (at timestamptz)`)
	result, err := f.do(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO began VALUES (now())`); err != nil {
			return ticket{}, err
		}
		_, err := tx.Exec(ctx, `SELECT pg_sleep(0.04)`)
		return ticket{}, err
	})
	require.NoError(t, err)
	require.Equal(t, 20*time.Millisecond, result.ExpiresAt.Sub(result.CreatedAt).Round(10*time.Millisecond))
	require.True(t, scalar[bool](t, f.bundle, `SELECT created_at >= at + interval '40 ms' AND expires_at >= created_at + interval '20 ms'
		AND forget_at >= expires_at + interval '1 h' FROM tool_dedup, began`))
}
