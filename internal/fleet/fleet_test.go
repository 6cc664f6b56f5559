package fleet

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLongFleet holds docs/upgrading.md to what it says of two versions on one table.
func TestLongFleet(t *testing.T) {
	t.Parallel()
	programs := programs(t)
	for _, order := range []string{"lock", "claim"} {
		orders := map[string]string{"old": order, "new": order}
		for name, test := range map[string]func(*testing.T, *world){
			"Turns":    testTurns,
			"Twins":    testTwins,
			"Killed":   testKilled,
			"Refusals": testRefusals,
			"Broken":   testBroken,
			"Reused":   testReused,
			"Reset":    testReset,
			"Sweeps":   testSweeps,
			"Records":  testRecords,
			"Storm":    testStorm,
		} {
			t.Run(order+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, migrated(t, programs, orders))
			})
		}
		t.Run(order+"/Migrates", func(t *testing.T) {
			t.Parallel()
			testMigrates(t, newWorld(t, programs, orders))
		})
		t.Run(order+"/MixedStorm", func(t *testing.T) {
			t.Parallel()
			mixed := map[string]string{"old": order, "new": map[string]string{"lock": "claim", "claim": "lock"}[order]}
			testStorm(t, migrated(t, programs, mixed))
		})
	}
	t.Run("Derived", func(t *testing.T) {
		t.Parallel()
		testDerived(t, migrated(t, programs, map[string]string{"old": "lock", "new": "lock"}))
	})
}

// eachPair runs f for each side as the first, and each two ways to make a call.
func eachPair(f func(first, way, otherWay, key string)) {
	for _, first := range []string{"old", "new"} {
		for _, way := range ways {
			for _, otherWay := range ways {
				f(first, way, otherWay, first+" "+way+" "+otherWay)
			}
		}
	}
}

var args = json.RawMessage(`{"seat": "12A", "price": 17.50, "bags": [1, {"kg": 20}]}`)

// In turns: each side replays the other's answer, and knows what became of the call.
func testTurns(t *testing.T, w *world) {
	eachPair(func(first, way, otherWay, key string) {
		ran := w.call(t, first, command{Op: way, Keys: []string{key}, Args: args})
		require.Equal(t, result{Effect: effect{ran.Effect.ID, first}}, ran, key)
		require.NotZero(t, ran.Effect.ID, key)
		want := result{Effect: ran.Effect, Replayed: true}
		for _, side := range []string{other(first), first} {
			require.Equal(t, want, w.call(t, side, command{Op: otherWay, Keys: []string{key}, Args: args}), key)
			known := w.ask(t, side, command{Op: "lookup", Keys: []string{key}}).Texts
			require.Equal(t, "done", known[0], key)
			var stored effect
			require.NoError(t, json.Unmarshal([]byte(known[1]), &stored))
			require.Equal(t, ran.Effect, stored, key)
		}
		require.Equal(t, 1, w.effects(t, key), key)
	})
}

// At once: the second twin sees the first one in flight, waits for it, and gets its answer.
func testTwins(t *testing.T, w *world) {
	eachPair(func(first, way, otherWay, key string) {
		open := w.closeGate(t)
		c := command{Op: way, Keys: []string{key}, Args: args, Gate: true}
		leader := w.begin(t, first, c)
		w.atGate(t)
		c.Op = otherWay
		looks := c
		looks.NoWait = true
		require.Equal(t, "in flight", w.call(t, other(first), looks).Err, key)
		require.Equal(t, "in flight", w.ask(t, other(first), command{Op: "lookup", Keys: []string{key}}).Texts[0], key)
		follower := w.begin(t, other(first), c)
		open()
		ran := leader().Results
		require.Len(t, ran, 1)
		require.Equal(t, []result{{Effect: effect{ran[0].Effect.ID, first}}}, ran, key)
		require.Equal(t, []result{{Effect: ran[0].Effect, Replayed: true}}, follower().Results, key)
		require.Equal(t, 1, w.effects(t, key), key)
	})
}

// A process is killed in the middle of a call, as in a deploy. The other version makes the
// call, or finds that the server has finished it.
func testKilled(t *testing.T, w *world) {
	eachPair(func(first, way, otherWay, key string) {
		open := w.closeGate(t)
		c := command{Op: way, Keys: []string{key}, Args: args, Gate: true}
		lost := w.sides[first].begin(c)
		w.atGate(t)
		w.sides[first].Kill()
		_, err := lost()
		require.ErrorIs(t, err, errEnded)
		c.Op, c.Gate = otherWay, false
		retry := w.begin(t, other(first), c)
		open()
		got := retry().Results
		require.Len(t, got, 1)
		require.Empty(t, got[0].Err, key)
		require.Equal(t, 1, w.effects(t, key), key)
		w.start(t, first)
		require.Equal(t, result{Effect: got[0].Effect, Replayed: true}, w.call(t, first, c), key)
	})
}

func testRefusals(t *testing.T, w *world) {
	eachPair(func(first, way, otherWay, key string) {
		refused := w.call(t, first, command{Op: way, Keys: []string{key}, Args: args, Refuse: true})
		require.Equal(t, result{Err: `refused|no paper|E_PAPER|{"tray":2}`}, refused, key)
		refused.Replayed = true
		require.Equal(t, refused, w.call(t, other(first), command{Op: otherWay, Keys: []string{key}, Args: args}), key)
		require.Equal(t, "refused", w.ask(t, other(first), command{Op: "lookup", Keys: []string{key}}).Texts[0], key)
		require.Zero(t, w.effects(t, key), key)
	})
}

// A call whose effect ended its own transaction is blocked for both sides, until one of
// them frees it.
func testBroken(t *testing.T, w *world) {
	eachPair(func(first, way, otherWay, key string) {
		broken := w.call(t, first, command{Op: "break", Keys: []string{key}, Args: args})
		require.NotEmpty(t, broken.Err, key)
		for side, way := range map[string]string{first: way, other(first): otherWay} {
			require.NotEmpty(t, w.call(t, side, command{Op: way, Keys: []string{key}, Args: args}).Err, key)
			require.Equal(t, "broken", w.ask(t, side, command{Op: "lookup", Keys: []string{key}}).Texts[0], key)
		}
		require.Equal(t, 1, w.effects(t, key), key)
		require.True(t, w.ask(t, other(first), command{Op: "reset", Keys: []string{key}}).Freed, key)
		require.Empty(t, w.call(t, first, command{Op: way, Keys: []string{key}, Args: args}).Err, key)
	})
}

// Arguments are the same to both versions by their value.
func testReused(t *testing.T, w *world) {
	eachPair(func(first, way, otherWay, key string) {
		ran := w.call(t, first, command{Op: way, Keys: []string{key}, Args: args})
		require.Empty(t, ran.Err, key)
		spelled := json.RawMessage(`{"bags":[1.0,{"kg":2e1}],"price":17.5,"s\u0065at":"12A"}`)
		require.Equal(t, result{Effect: ran.Effect, Replayed: true}, w.call(t, other(first), command{Op: otherWay, Keys: []string{key}, Args: spelled}), key)
		for _, reused := range []json.RawMessage{nil, json.RawMessage(`{"seat": "12B", "price": 17.50, "bags": [1, {"kg": 20}]}`)} {
			require.Equal(t, "key reused", w.call(t, other(first), command{Op: otherWay, Keys: []string{key}, Args: reused}).Err, key)
		}
		require.Equal(t, 1, w.effects(t, key), key)
	})
}

// Each side frees what the other has recorded, and nothing that is in flight.
func testReset(t *testing.T, w *world) {
	eachPair(func(first, way, otherWay, key string) {
		open := w.closeGate(t)
		c := command{Op: way, Keys: []string{key}, Args: args, Gate: true}
		running := w.begin(t, first, c)
		w.atGate(t)
		reset := command{Op: "reset", Keys: []string{key}}
		require.Equal(t, "in flight", w.begin(t, other(first), reset)().Err, key)
		open()
		require.Empty(t, running().Results[0].Err, key)

		require.True(t, w.ask(t, other(first), reset).Freed, key)
		require.False(t, w.ask(t, first, reset).Freed, key)
		c.Op = otherWay
		again := w.call(t, other(first), c)
		require.Equal(t, result{Effect: effect{again.Effect.ID, other(first)}}, again, key)
		c.Op = way
		require.Equal(t, result{Effect: again.Effect, Replayed: true}, w.call(t, first, c), key)
		require.Equal(t, 2, w.effects(t, key), key)
	})
}

// Each side sweeps what both have recorded, and nothing that the other is sweeping.
func testSweeps(t *testing.T, w *world) {
	for _, sweeper := range []string{"old", "new"} {
		open := w.closeGate(t)
		calls := map[string]command{}
		for _, side := range []string{"old", "new"} {
			for _, way := range ways {
				key := sweeper + " sweeps " + side + " " + way
				calls[key] = command{Op: way, Keys: []string{key}, Args: args}
				require.Empty(t, w.call(t, side, calls[key]).Err, key)
			}
		}
		pass(t, w, "25 hours")
		sweep := w.begin(t, sweeper, command{Op: "sweep", Gate: true})
		w.atGate(t)
		second := w.begin(t, other(sweeper), command{Op: "sweep"})
		// Claims have no lock for sweeps: the new side passes over rows that are locked, the
		// old one waits for them.
		locked := w.orders[sweeper] == "lock"
		if locked || sweeper == "old" {
			a := second()
			require.Empty(t, a.Err)
			require.Equal(t, locked, a.Swept.Skipped)
			require.Zero(t, a.Swept.Expired)
			second = func() answer { return a }
		}
		open()
		var expired int64
		for _, a := range []answer{sweep(), second()} {
			require.Empty(t, a.Err)
			expired += a.Swept.Expired
		}
		require.EqualValues(t, len(calls), expired)
		for key, c := range calls {
			require.Equal(t, "expired", w.call(t, "old", c).Err, key)
			require.Equal(t, "expired", w.call(t, "new", c).Err, key)
		}
		pass(t, w, "31 days")
		require.EqualValues(t, len(calls), w.ask(t, sweeper, command{Op: "sweep"}).Swept.Forgotten)
		for key, c := range calls {
			ran := w.call(t, "new", c)
			require.Equal(t, result{Effect: effect{ran.Effect.ID, "new"}}, ran, key)
			require.Equal(t, result{Effect: ran.Effect, Replayed: true}, w.call(t, "old", c), key)
			require.Equal(t, 2, w.effects(t, key), key)
		}
		w.exec(t, `TRUNCATE tool_dedup`)
	}
}

// pass makes every record older, as if the time given had passed.
func pass(t *testing.T, w *world, interval string) {
	t.Helper()
	w.exec(t, `
		UPDATE tool_dedup
		SET created_at = created_at - $1::text::interval,
		    expires_at = expires_at - $1::text::interval,
		    forget_at = forget_at - $1::text::interval`, interval)
}

// Both versions write the same record of a call.
func testRecords(t *testing.T, w *world) {
	record := func(side, way, key string, refuse bool) (text string) {
		c := command{Op: way, Keys: []string{key}, Args: args, Refuse: refuse}
		w.call(t, side, c)
		require.NoError(t, w.conn.QueryRow(t.Context(), `
			SELECT (to_jsonb(r) - '{created_at,expires_at,forget_at,result}'::text[] || jsonb_build_object('keep', expires_at - created_at, 'forget', forget_at - created_at,
				'result', replace(result::jsonb #- '{id}' #>> '{}', $2, 'side')))::text
			FROM tool_dedup AS r
			WHERE key = $1`, key, side).Scan(&text))
		require.True(t, w.ask(t, other(side), command{Op: "reset", Keys: []string{key}}).Freed)
		return text
	}
	for _, way := range ways {
		for _, refuse := range []bool{false, true} {
			old := record("old", way, "k", refuse)
			require.NotEmpty(t, old)
			require.JSONEq(t, old, record("new", way, "k", refuse), way)
		}
	}
}

// The old version runs on the first migration alone, while the new version applies its
// own. Both are on the table afterwards.
func testMigrates(t *testing.T, w *world) {
	w.ask(t, "old", command{Op: "migrate", Version: 1})
	ran := map[string]result{}
	run := func(key string) {
		ran[key] = w.call(t, "old", command{Op: ways[len(ran)%len(ways)], Keys: []string{key}, Args: args})
		require.Equal(t, result{Effect: effect{ran[key].Effect.ID, "old"}}, ran[key], key)
	}
	for _, way := range ways {
		run("before " + way)
	}
	migrated := make(chan struct{})
	answered := w.sides["new"].begin(command{Op: "migrate"})
	var migration answer
	var err error
	go func() {
		defer close(migrated)
		migration, err = answered()
	}()
	for done := false; !done; {
		run(fmt.Sprint("meanwhile ", len(ran)))
		select {
		case <-migrated:
			done = true
		default:
		}
	}
	require.NoError(t, err)
	require.Empty(t, migration.Err)
	run("after")
	t.Logf("%d calls of the old version before, during and after the migration", len(ran))
	for key, r := range ran {
		for _, side := range []string{"new", "old"} {
			require.Equal(t, result{Effect: r.Effect, Replayed: true}, w.call(t, side, command{Op: "do", Keys: []string{key}, Args: args}), key)
		}
		require.Equal(t, 1, w.effects(t, key), key)
	}
}

// Keys and fingerprints are the same, but for the arguments that docs/upgrading.md names.
func testDerived(t *testing.T, w *world) {
	for _, op := range []string{"keys", "fingerprints"} {
		old := w.ask(t, "old", command{Op: op, Args: args}).Texts
		require.NotEmpty(t, old)
		require.Equal(t, old, w.ask(t, "new", command{Op: op, Args: args}).Texts, op)
	}
	for _, first := range []string{"old", "new"} {
		amount := command{Op: "amount", Keys: []string{"amount " + first}}
		require.Empty(t, w.call(t, first, amount).Err)
		require.Equal(t, "key reused", w.call(t, other(first), amount).Err)
		require.Equal(t, 1, w.effects(t, amount.Keys[0]))
	}
}
