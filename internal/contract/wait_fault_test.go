package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestWaitOutlivesAFault: a look that meets a transient fault is no end of the
// wait.
func TestWaitOutlivesAFault(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	waiter := newDeduper(t, f.db.Pool(t, poolOfOne, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = "waiter"
	}), &f.opts)
	held := newGate()
	twin := start(ctx, f.d, call("k"), (&tool{ref: "k", then: held.then}).run)
	receive(t, ctx, held.entered)
	waiting := start(ctx, waiter, call("k"), effect("k"))
	require.NoError(t, f.events.untilWaiting(ctx, 0, 1))

	ended := scalar[int](t, f.bundle, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'waiter'`)
	require.Positive(t, ended)
	held.release()
	receive(t, ctx, twin).require(t)
	require.True(t, receive(t, ctx, waiting).require(t).Replayed)
}

// TestOwnConflictIsNoTwin: a statement that violates a constraint of the tool's
// own waits for nobody.
func TestOwnConflictIsNoTwin(t *testing.T) {
	t.Parallel()

	type row struct {
		Ref string `json:"ref"`
	}
	ctx, f := plain.setup(t, nil)
	f.exec(t, `CREATE UNIQUE INDEX one_each ON effects (ref)`)
	insert := dedup.SQL(`INSERT INTO effects (ref) VALUES ('seat') RETURNING ref`)
	_, err := dedup.DoStatement[row](ctx, f.d, call("warm"), dedup.SQL(`SELECT 'x' AS ref`))
	require.NoError(t, err)
	_, err = dedup.DoStatement[row](ctx, f.d, call("first"), insert)
	require.NoError(t, err)
	_, err = dedup.DoStatement[row](ctx, f.d, call("second"), insert)
	requireState(t, err, "23505")
	require.Empty(t, events[dedup.WaitStartData](f.events))
}

// A COMMIT that never came is known to have failed once the identity is found free:
// what the next attempt meets is the call's own error, and no unknown outcome.
func TestFreeIdentityEndsTheDoubt(t *testing.T) {
	t.Parallel()
	ctx, f, proxy := proxied(t, plain, &dedup.Options{CommitTimeout: time.Second, Retry: quickRetry})
	f.warm(t)
	dropped := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit})
	e := &tool{ref: "k", then: func(_ context.Context, _ pgx.Tx, run int) error {
		if run == 1 {
			return nil
		}
		return errPaper
	}}
	_, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.Equal(t, 1, dropped.Count())
	require.ErrorIs(t, err, errPaper)
	require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
	require.Zero(t, f.effects(t, "k"))
}
