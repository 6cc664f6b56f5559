package dedup_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestForesight: a statement is not run for a call that its Deduper has met, nor
// while it expects replays. Where it does not, what the statement did is undone.
func TestForesight(t *testing.T) {
	t.Parallel()

	ctx, f := readCommitted.setup(t, nil)
	f.countRuns(t)
	one := func(d *dedup.Deduper, key string) {
		t.Helper()
		_, err := dedup.DoStatement[ticket](ctx, d, call(key), leave(key))
		require.NoError(t, err)
	}
	many := func(d *dedup.Deduper, keys ...string) {
		t.Helper()
		var calls []dedup.StatementCall
		for _, key := range keys {
			calls = append(calls, dedup.StatementCall{Call: call(key), Statement: leave(key)})
		}
		for _, out := range outcomes(ctx, d, calls...) {
			require.NoError(t, out.Err)
		}
	}
	all := func(d *dedup.Deduper, key string) {
		t.Helper()
		_, err := dedup.DoTogether[ticket](ctx, d, []dedup.StatementCall{{Call: call(key), Statement: leave(key)}})
		require.NoError(t, err)
	}
	runs := 0
	requireRuns := func(more int, what string) {
		t.Helper()
		runs += more
		require.Equal(t, runs, f.runs(t), what)
	}

	one(f.d, "a")
	many(f.d, "b", "c")
	all(f.d, "d")
	requireRuns(4, "first calls")
	f.d.Calm(leaveSQL)
	one(f.d, "a")
	f.d.Calm(leaveSQL)
	one(f.d, "b")
	f.d.Calm(leaveSQL)
	many(f.d, "a", "b", "c", "d")
	all(f.d, "a")
	requireRuns(0, "met before")

	stranger := newDeduper(t, f.pool, &f.opts)
	one(stranger, "a")
	requireRuns(0, "wary at first")
	stranger.Calm(leaveSQL)
	one(stranger, "b")
	requireRuns(1, "calm")
	one(stranger, "c")
	requireRuns(0, "wary again")

	n := 100
	for i := range n {
		one(stranger, fmt.Sprint("first ", i))
	}
	requireRuns(n, "first calls")
	one(stranger, "d")
	requireRuns(1, "calm after so many")
	for _, key := range []string{"a", "b", "c", "d"} {
		require.Equal(t, 1, f.effects(t, key))
	}
	require.Equal(t, 4+n, f.records(t))
}

// TestForesightAfterDoubt: a call whose outcome is unknown, or whose twin was in
// flight, has a record most likely when it comes again.
func TestForesightAfterDoubt(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, readCommitted, nil)
	f.countRuns(t)
	_, err := dedup.DoStatement[ticket](ctx, f.d, call("warm"), leave("warm"))
	require.NoError(t, err)

	late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Where: isWhole})
	calling, cancel := context.WithCancel(ctx)
	pending := startStatement(calling, f.d, call("unknown"), leave("unknown"))
	require.NoError(t, late.Wait(ctx))
	cancel()
	require.ErrorIs(t, receive(t, ctx, pending).err, dedup.ErrOutcomeUnknown)

	held := newGate()
	winner := start(ctx, f.direct(t), call("busy"), (&tool{ref: "busy", then: held.then}).run)
	receive(t, ctx, held.entered)
	impatient := call("busy")
	impatient.MaxWait = -time.Second
	_, err = dedup.DoStatement[ticket](ctx, f.d, impatient, leave("busy"))
	require.ErrorIs(t, err, dedup.ErrInFlight)
	held.release()
	receive(t, ctx, winner).require(t)

	for _, key := range []string{"unknown", "busy"} {
		f.d.Calm(leaveSQL)
		again, err := dedup.DoStatement[ticket](ctx, f.d, call(key), leave(key))
		require.NoError(t, err)
		require.True(t, again.Replayed)
		require.Equal(t, 1, f.effects(t, key))
	}
	require.Equal(t, 2, f.runs(t), "the warm-up and the one whose answer was lost")
}

// TestForesightAfterAnError: an identity that came to no record is free.
func TestForesightAfterAnError(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, readCommitted, nil, poolOfOne)
	f.exec(t, `CREATE TABLE open (n int CHECK (n > 0))`)
	insert := func(key string, n int) error {
		_, err := dedup.DoStatement[map[string]int](ctx, f.d, call(key), dedup.SQL(`INSERT INTO open VALUES ($1) RETURNING n`, n))
		return err
	}
	require.Error(t, insert("k", 0))
	require.Error(t, insert("k", 0))
	require.NoError(t, insert("other", 1)) // prepares it anew
	for _, what := range []string{"first call", "replay"} {
		require.Equal(t, 1, trips(t, proxy, func() { require.NoError(t, insert("k", 1)) }), what)
	}
	require.Equal(t, 2, scalar[int](t, f.bundle, `SELECT count(*) FROM open`))
}

// TestForesightIsCautious: a statement that was not seen to be fast, and a call with a
// limit on its waiting, are looked up whatever is expected.
func TestForesightIsCautious(t *testing.T) {
	t.Parallel()

	ctx, f := readCommitted.setup(t, nil)
	f.countRuns(t)
	_, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), leave("k"))
	require.NoError(t, err)
	replay := func(d *dedup.Deduper, c dedup.Call) int {
		t.Helper()
		before := f.runs(t)
		again, err := dedup.DoStatement[ticket](ctx, d, c, leave("k"))
		require.NoError(t, err)
		require.True(t, again.Replayed)
		return f.runs(t) - before
	}

	unknown := newDeduper(t, f.pool, nil)
	unknown.Calm()
	require.Zero(t, replay(unknown, call("k")))
	impatient := newDeduper(t, f.pool, nil)
	impatient.Calm(leaveSQL)
	c := call("k")
	c.MaxWait = -1
	require.Zero(t, replay(impatient, c))
	c.MaxWait = time.Hour
	impatient = newDeduper(t, f.pool, nil)
	impatient.Calm(leaveSQL)
	require.Zero(t, replay(impatient, c))
	calm := newDeduper(t, f.pool, nil)
	calm.Calm(leaveSQL)
	require.Equal(t, 1, replay(calm, call("k")))
}

// TestForesightInTheWay has a replay that is not expected wait for the row of its
// statement, and its connection ended there: what it finds then is not its own.
func TestForesightInTheWay(t *testing.T) {
	t.Parallel()

	ctx, f := readCommitted.setup(t, &dedup.Options{Retry: quickRetry})
	f.exec(t, `CREATE TABLE account (id int PRIMARY KEY, n int)`)
	f.exec(t, `INSERT INTO account VALUES (1, 0)`)
	const sql = `UPDATE account SET n = n + 1 WHERE id = $1 RETURNING n AS id, 'x' AS title`
	first, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), dedup.SQL(sql, 1))
	require.NoError(t, err)
	f.age(t, "k", "3 hours")

	tx := f.begin(t, ctx)
	_, err = tx.Exec(ctx, `SELECT FROM account FOR UPDATE`)
	require.NoError(t, err)
	calm := f.peer(t)
	calm.Calm(sql)
	pending := startStatement(ctx, calm, call("k"), dedup.SQL(sql, 1))
	f.eventually(t, waitingInside, 1)
	f.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	again := receive(t, ctx, pending).require(t)
	require.True(t, again.Replayed)
	require.False(t, again.Recovered)
	require.Equal(t, first.Value, again.Value)

	stranger := f.peer(t)
	stranger.Calm(sql)
	pending = startStatement(ctx, stranger, call("k"), dedup.SQL(sql, 1))
	f.eventually(t, waitingInside, 1)
	require.NoError(t, tx.Rollback(ctx))
	require.True(t, receive(t, ctx, pending).require(t).Replayed)
	require.Equal(t, 1, scalar[int](t, f.bundle, `SELECT n FROM account`))
	require.Empty(t, events[dedup.ConflictData](f.events), "a replay is no lost race")
}
