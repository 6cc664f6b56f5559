package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// byStatement makes the call with a statement that leaves the same effect.
func byStatement(ctx context.Context, d *dedup.Deduper, c dedup.Call, _ dedup.Effect[ticket]) (dedup.Result[ticket], error) {
	return dedup.DoStatement[ticket](ctx, d, c, dedup.SQL(effectSQL, c.Key))
}

// TestFlightAnswersAreNotOlder: while the server's answer is on its way to the call
// that leads, the record is deleted or expires. A call that begins then does not get
// what was true before it began.
func TestFlightAnswersAreNotOlder(t *testing.T) {
	t.Parallel()

	ways := map[string]doFunc{"Do": dedup.Do[ticket], "Statement": byStatement}
	looked := faultproxy.AtSQL("SELECT fingerprint")
	for name, do := range ways {
		for _, c := range []struct {
			name string
			// replay tells that the leader replays, in this way.
			replay, lookFirst bool
			// at is what the leader is held at.
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
					f.exec(t, fixtureSQL)
					f.warm(t)
					direct := f.direct(t)
					effects := 1
					if c.replay {
						_, err := do(ctx, direct, call("k"), effect("k"))
						require.NoError(t, err)
					}
					of := call("k")
					of.LookFirst = c.lookFirst

					late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Where: c.at})
					leader := startBy(do, ctx, f.d, of, effect("k"))
					require.NoError(t, late.Wait(ctx))
					if expires {
						f.age(t, "k", "25 hours")
					} else {
						freed, err := direct.Reset(ctx, of.Scope, of.Tool, of.Key, "wrong answer")
						require.NoError(t, err)
						require.True(t, freed)
						effects = 2
					}
					follower := startBy(do, ctx, f.d, of, effect("k"))
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
