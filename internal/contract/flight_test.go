package contract_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestFlight(t *testing.T) {
	t.Parallel()

	t.Run("FollowersNeedNoConnection", func(t *testing.T) {
		t.Parallel()
		ctx, f, proxy := proxied(t, plain, nil)
		f.warm(t)
		held := newGate()
		e := &tool{ref: "k", then: held.then}
		leader := start(ctx, f.d, call("k"), e.run)
		receive(t, ctx, held.entered)
		before := proxy.Snapshot()
		var followers []<-chan answered
		for range 20 {
			followers = append(followers, start(ctx, f.d, call("k"), e.run))
		}
		require.NoError(t, f.events.untilWaiting(ctx, 20, 0))
		held.release()
		answers := []dedup.Result[ticket]{receive(t, ctx, leader).require(t)}
		for _, follower := range followers {
			a := receive(t, ctx, follower).require(t)
			require.Zero(t, a.Attempts)
			require.Positive(t, a.Waited)
			answers = append(answers, a)
		}
		requireTwins(t, answers)
		after := proxy.Snapshot()
		require.Equal(t, before.Units+1, after.Units, "the leader's record and COMMIT")
		require.Equal(t, before.Connections, after.Connections)
	})

	t.Run("EachFollowerHasItsOwnValue", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		held := newGate()
		list := func(ctx context.Context, tx pgx.Tx) ([]int, error) { return []int{1, 2, 3}, held.pass(ctx) }
		answers := make(chan []int, 2)
		for range 2 {
			go func() {
				a, _ := dedup.Do(ctx, f.d, call("k"), list)
				answers <- a.Value
			}()
		}
		require.NoError(t, f.events.untilWaiting(ctx, 1, 0))
		held.release()
		first := receive(t, ctx, answers)
		clear(first)
		require.Equal(t, []int{1, 2, 3}, receive(t, ctx, answers))
	})

	t.Run("GoexitLandsIt", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		held := newGate()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = dedup.Do(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
				_, _ = effect("k")(ctx, tx)
				_ = held.pass(ctx)
				runtime.Goexit()
				return ticket{}, nil
			})
		}()
		receive(t, ctx, held.entered)
		follower := start(ctx, f.d, call("k"), effect("k"))
		require.NoError(t, f.events.untilWaiting(ctx, 1, 0))
		held.release()
		receive(t, ctx, gone)
		require.False(t, receive(t, ctx, follower).require(t).Replayed)
		require.Equal(t, 1, f.effects(t, "k"))
	})

	t.Run("TheImpatientNeedNoConnection", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil, poolOfOne) // which the leader has
		held := newGate()
		leader := start(ctx, f.d, call("k"), (&tool{ref: "k", then: held.then}).run)
		receive(t, ctx, held.entered)
		impatient := call("k")
		impatient.MaxWait = -1
		soon, cancel := context.WithTimeout(ctx, limit/4)
		defer cancel()
		_, err := dedup.Do(soon, f.d, impatient, effect("k"))
		require.ErrorIs(t, err, dedup.ErrInFlight)
		held.release()
		receive(t, ctx, leader).require(t)
	})

	t.Run("RefusalIsShared", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
			if err := f.events.untilWaiting(ctx, 1, 0); err != nil {
				return err
			}
			return dedup.Final(errPaper)
		}}
		a, b := start(ctx, f.d, call("k"), e.run), start(ctx, f.d, call("k"), e.run)
		require.ErrorIs(t, receive(t, ctx, a).err, dedup.ErrRefused)
		require.ErrorIs(t, receive(t, ctx, b).err, dedup.ErrRefused)
		e.requireRuns(t, 1)
	})
}
