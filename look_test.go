package dedup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// looking sends the texts of a look one after the other, so that it holds its
// lock when it comes to the table.
var looking = variant{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec}

// block keeps everybody from reading tool_dedup until it is called again.
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

// seen is what a Lookup on a goroutine of its own gave.
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

// TestLooksAreNoTwins: those who look take a lock for a moment, and are not to
// be taken for a call in flight.
func TestLooksAreNoTwins(t *testing.T) {
	t.Parallel()

	t.Run("ByEachOther", func(t *testing.T) {
		t.Parallel()
		ctx, f := looking.setup(t, nil)
		unblock := f.block(t, ctx)
		a := startLookup(ctx, f.d, "nobody")
		f.eventually(t, waitingInside, 1)
		b := startLookup(ctx, f.peer(t), "nobody")
		f.eventually(t, waitingInside, 2)
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
		f.eventually(t, waitingInside, 1)
		e := &tool{ref: "k"}
		pending := start(ctx, f.d, call("k"), e.run)
		f.eventually(t, waitingInside, 2)
		unblock()
		require.NoError(t, receive(t, ctx, look).err)
		require.NoError(t, again.Wait(ctx), "it has met the lock")
		again.Release()
		require.False(t, receive(t, ctx, pending).require(t).Replayed)
		e.requireRuns(t, 1)
	})
}

// TestLookTellsWhyItsContextEnded: a look that is cut off by the end of its
// context tells the cause, wherever it was at that moment.
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
