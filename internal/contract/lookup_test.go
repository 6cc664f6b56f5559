package contract_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// looking sends the texts of a look one after the other, so that it holds its
// lock when it comes to the table.
var looking = profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec}

// block locks tool_dedup against reads until unblock is called.
func (f *fixture) block(t *testing.T, ctx context.Context) (unblock func()) {
	t.Helper()
	conn, err := pgx.Connect(ctx, f.db.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	_, err = conn.Exec(ctx, `BEGIN; LOCK TABLE tool_dedup IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	return func() {
		_, err := conn.Exec(ctx, `ROLLBACK`)
		require.NoError(t, err)
	}
}

// seen is the result of a Lookup on another goroutine.
type seen struct {
	dedup.Status
	err error
}

func startLookup(ctx context.Context, d *dedup.Deduper, key string) <-chan seen {
	out := make(chan seen, 1)
	go func() {
		var s seen
		s.Status, s.err = d.Lookup(ctx, "acme", "create_ticket", key)
		out <- s
	}()
	return out
}

// TestLooksAreNoTwins: a Lookup takes the lock for a moment. A call must not take it for a call in
// flight.
func TestLooksAreNoTwins(t *testing.T) {
	t.Parallel()

	t.Run("ByEachOther", func(t *testing.T) {
		t.Parallel()
		ctx, f := looking.setup(t, nil)
		unblock := f.block(t, ctx)
		a := startLookup(ctx, f.d, "nobody")
		f.untilWaitingInside(t, 1)
		b := startLookup(ctx, f.peer(t), "nobody")
		f.untilWaitingInside(t, 2)
		unblock()
		for _, out := range []<-chan seen{a, b} {
			s := receive(t, ctx, out)
			require.NoError(t, s.err)
			require.Equal(t, dedup.StateNotFound, s.State)
		}
	})

	// A call that may not wait looks twice before it says that a twin is in
	// flight.
	t.Run("ByACall", func(t *testing.T) {
		t.Parallel()
		ctx, f, proxy := proxied(t, looking, &dedup.Options{MaxWait: -1})
		f.warm(t)
		again := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: isPeek})
		unblock := f.block(t, ctx)
		look := startLookup(ctx, newDeduper(t, f.db.Pool(t, looking.configure), nil), "k")
		f.untilWaitingInside(t, 1)
		e := &tool{ref: "k"}
		pending := start(ctx, f.d, call("k"), e.run)
		f.untilWaitingInside(t, 2)
		unblock()
		require.NoError(t, receive(t, ctx, look).err)
		select {
		case <-again.Applied():
		case a := <-pending:
			require.FailNow(t, "it has met the lock and has not looked again", "%v", a.err)
		}
		again.Release()
		require.False(t, receive(t, ctx, pending).require(t).Replayed)
		e.requireRuns(t, 1)
	})
}

// TestLookTellsWhyItsContextEnded: a look that is cut off by the end of its
// context gives the cause, wherever it was at that moment.
func TestLookTellsWhyItsContextEnded(t *testing.T) {
	t.Parallel()
	_, b := setup(t, nil)
	gone := errors.New("the user has gone")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := b.d.Lookup(ended, "s", "t", "k")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, gone)
}

// DoTx cannot look again. It waits some milliseconds, in which a Lookup releases its lock.
func TestDoTxThatMayNotWaitGivesLookersTime(t *testing.T) {
	t.Parallel()
	ctx, f, proxy := proxied(t, plain, nil)
	twin, err := f.direct(t).Pool().Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = twin.Rollback(ctx) }()
	_, err = dedup.DoTx(ctx, f.d, twin, call("k"), effect("k"))
	require.NoError(t, err)
	tx := f.begin(t, ctx)
	proxy.Reset()
	c := call("k")
	c.MaxWait = -1
	_, err = dedup.DoTx(ctx, f.d, tx, c, effect("k"))
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.True(t, slices.ContainsFunc(proxy.Snapshot().Statements, func(sql string) bool {
		return strings.Contains(sql, "pg_advisory_xact_lock(")
	}), "it waits inside Postgres")
}

// A look needs a snapshot younger than its lock, with any default isolation level of the database.
// Otherwise it misses a twin that commits between the two.
func TestLookupIsReadCommitted(t *testing.T) {
	t.Parallel()
	ctx, f, proxy := proxied(t, plain, nil)
	_, err := f.d.Lookup(ctx, "acme", "create_ticket", "warm")
	require.NoError(t, err)
	proxy.Reset()
	_, err = f.d.Lookup(ctx, "acme", "create_ticket", "k")
	require.NoError(t, err)
	seen := proxy.Snapshot()
	require.Equal(t, 1, seen.RoundTrips)
	require.Equal(t, "begin isolation level read committed", seen.Statements[0])
	require.Contains(t, seen.Statements[1], "pg_try_advisory_xact_lock_shared")
	require.Contains(t, seen.Statements[2], "encode(fingerprint")
	require.Equal(t, "rollback", seen.Statements[3])
}

// A call that may not wait gets ErrInFlight after one look.
func TestOneLookShowsATwin(t *testing.T) {
	t.Parallel()
	ctx, f, proxy := proxied(t, plain, nil)
	f.warm(t)
	_, land := f.inFlight(t, ctx, f.direct(t), call("k"))
	proxy.Reset()
	c := call("k")
	c.MaxWait = -1
	_, err := dedup.Do(ctx, f.d, c, effect("k"))
	require.ErrorIs(t, err, dedup.ErrInFlight)
	looks := 0
	for _, sql := range proxy.Snapshot().Statements {
		if strings.Contains(sql, "try_advisory_xact_lock_shared") {
			looks++
		}
	}
	require.LessOrEqual(t, looks, 4)
	land()

}

func lookFirst(key string) dedup.Call {
	c := call(key)
	c.LookFirst = true
	return c
}
