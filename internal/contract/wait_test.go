package contract_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestWaitingTwinsHoldNoConnection has 200 twins of one held effect wait in two
// processes with four connections each, and calls of other identities pass them.
func TestWaitingTwinsHoldNoConnection(t *testing.T) {
	t.Parallel()

	const twins = 100 // in each process
	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		t.Run(order.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := variant{order: order, isolation: pgx.ReadCommitted}.setup(t, nil)
			peer := f.peer(t)
			held := newGate()
			e := &tool{ref: "k", then: held.then}
			var pending []<-chan answered
			for range twins {
				pending = append(pending, start(ctx, f.d, call("k"), e.run), start(ctx, peer, call("k"), e.run))
			}
			receive(t, ctx, held.entered)
			require.NoError(t, f.events.untilWaiting(ctx, 2*twins-2, 1))

			for i := range 5 {
				for _, d := range []*dedup.Deduper{f.d, peer} {
					_, err := dedup.Do(ctx, d, call(fmt.Sprint("other ", i)), effect("other"))
					require.NoError(t, err)
				}
			}
			require.Equal(t, 5, f.effects(t, "other"))
			require.Zero(t, f.effects(t, "k"), "they all still wait")

			held.release()
			var answers []dedup.Result[ticket]
			for _, p := range pending {
				answers = append(answers, receive(t, ctx, p).require(t))
			}
			requireTwins(t, answers)
			e.requireRuns(t, 1)
			require.Equal(t, 1, f.effects(t, "k"))
		})
	}
}

// TestWaitEndsAsTheLeaderDoes lets a follower's patience end at the moment when
// its leader has the answer: the race detector sees whether it looks too early.
func TestWaitEndsAsTheLeaderDoes(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	for i := range 20 {
		key := fmt.Sprint(i)
		held := newGate()
		leader := start(ctx, f.d, call(key), (&tool{ref: key, then: held.then}).run)
		receive(t, ctx, held.entered)
		impatient := call(key)
		impatient.MaxWait = time.Millisecond
		follower := start(ctx, f.d, impatient, effect(key))
		// The leader must not hear of the follower's end through the test, for
		// that would put the two in order.
		timer := time.AfterFunc(time.Millisecond, held.release)
		a := receive(t, ctx, leader).require(t)
		timer.Stop()
		require.False(t, a.Replayed)
		if b := receive(t, ctx, follower); b.err != nil {
			require.ErrorIs(t, b.err, dedup.ErrInFlight)
		} else {
			require.Equal(t, a.Value, b.Value)
		}
	}
}
