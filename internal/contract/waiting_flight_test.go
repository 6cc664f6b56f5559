package contract_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
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
		_, land := f.inFlight(t, ctx, f.d, call("k"))
		impatient := call("k")
		impatient.MaxWait = -1
		soon, cancel := context.WithTimeout(ctx, limit/4)
		defer cancel()
		_, err := dedup.Do(soon, f.d, impatient, effect("k"))
		require.ErrorIs(t, err, dedup.ErrInFlight)
		land()
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

// TestFlightOfAnOlderAnswer: a call that began when the leader's COMMIT was on its way must not
// take its answer. The record is most likely there still, so that it looks before it begins a
// transaction.
func TestFlightOfAnOlderAnswer(t *testing.T) {
	t.Parallel()
	ctx, f, proxy := proxied(t, plain, nil)
	f.warm(t)
	late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Where: faultproxy.AtCommit})
	leader := start(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, late.Wait(ctx))
	follower := start(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, f.events.untilWaiting(ctx, 1, 0))
	proxy.Reset()
	late.Release()
	require.False(t, receive(t, ctx, leader).require(t).Replayed)
	got := receive(t, ctx, follower).require(t)
	require.True(t, got.Replayed)
	require.Zero(t, got.Attempts)
	for _, sql := range proxy.Snapshot().Statements {
		require.NotContains(t, strings.ToLower(sql), "begin")
	}
}

// TestFlightAnswersAreNotOlder: while the server's answer travels to the leader, the record is
// deleted or expires. A call that begins then must not get the older answer.
func TestFlightAnswersAreNotOlder(t *testing.T) {
	t.Parallel()

	looked := faultproxy.AtSQL("encode(fingerprint")
	for name, do := range map[string]way{"Do": byDo, "Statement": byStatement} {
		for _, c := range []struct {
			name string
			// replay: the leader replays, in this way.
			replay, lookFirst bool
			// at selects the unit at which the leader is held.
			at func(faultproxy.Unit) bool
		}{
			{name: "First", at: atChunk},
			{name: "Replay", replay: true, at: looked},
			{name: "LookFirst", replay: true, lookFirst: true, at: looked},
		} {
			for _, expires := range []bool{false, true} {
				t.Run(fmt.Sprint(name, "-", c.name, "-", expires), func(t *testing.T) {
					t.Parallel()
					ctx, f, proxy := proxied(t, plain, nil)
					f.warm(t)
					direct := f.direct(t)
					effects := 1
					if c.replay {
						_, err := do(ctx, direct, call("k"))
						require.NoError(t, err)
					}
					of := call("k")
					of.LookFirst = c.lookFirst

					late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Where: c.at})
					leader := do.start(ctx, f.d, of)
					require.NoError(t, late.Wait(ctx))
					if expires {
						f.age(t, "k", "25 hours")
					} else {
						freed, err := direct.Reset(ctx, of.Scope, of.Tool, of.Key, dedup.ChangeOptions{Reason: "wrong answer"})
						require.NoError(t, err)
						require.True(t, freed)
						effects = 2
					}
					follower := do.start(ctx, f.d, of)
					require.NoError(t, f.events.untilWaiting(ctx, 1, 0))
					late.Release()

					require.Equal(t, c.replay, receive(t, ctx, leader).require(t).Replayed)
					got := receive(t, ctx, follower)
					if expires {
						require.ErrorIs(t, got.err, dedup.ErrExpired)
					} else {
						require.False(t, got.require(t).Replayed)
					}
					require.Equal(t, effects, f.effects(t, "k"))
				})
			}
		}
	}
}
