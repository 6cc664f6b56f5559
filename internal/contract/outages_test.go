package contract_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// outage is a server that takes no connections, until proxy.Refuse(false).
type outage struct {
	*fixture
	proxy *faultproxy.Proxy
	// tried counts the connections that were to be made. dialing is called before
	// each, with its number from 1.
	tried   atomic.Int64
	dialing func(ctx context.Context, n int) error
}

func newOutage(t *testing.T, opts dedup.Options) (context.Context, *outage) {
	t.Helper()
	o := &outage{}
	ctx, f, proxy := proxied(t, plain, &opts, o.beforeConnect)
	o.fixture, o.proxy = f, proxy
	proxy.Refuse(true)
	return ctx, o
}

// beforeConnect counts connections. The proxy's count is too high: after a reset, pgx sends a
// cancel request on another connection.
func (o *outage) beforeConnect(config *pgxpool.Config) {
	config.BeforeConnect = func(ctx context.Context, _ *pgx.ConnConfig) error {
		if n := int(o.tried.Add(1)); o.dialing != nil {
			return o.dialing(ctx, n)
		}
		return nil
	}
}

// cold returns a Deduper whose pool is still empty.
func (o *outage) cold(t *testing.T) *dedup.Deduper {
	t.Helper()
	return newDeduper(t, o.db.Pool(t, o.conf...), &o.opts)
}

// dials counts the connections that were to be made while do runs.
func (o *outage) dials(do func()) int {
	o.tried.Store(0)
	do()
	return int(o.tried.Load())
}

func requireExhausted(t *testing.T, err error, attempts int) {
	t.Helper()
	var exhausted *dedup.Error
	require.ErrorAs(t, err, &exhausted)
	require.Equal(t, attempts, exhausted.Attempts)
	require.True(t, dedup.IsRetryable(err))
}

// TestConnectTimeout: a host does not answer while a connection is made. connect_timeout ends that
// and not the caller's context, so the next attempt makes another connection.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, &dedup.Options{Retry: quickRetry})
	for name, do := range map[string]func(d *dedup.Deduper) error{
		"Do": func(d *dedup.Deduper) error { _, err := dedup.Do(ctx, d, call("do"), effect("do")); return err },
		"BeginFunc": func(d *dedup.Deduper) error {
			return d.BeginFunc(ctx, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, `SELECT 1`); return err })
		},
		"Erase": func(d *dedup.Deduper) error {
			_, err := d.Erase(ctx, "gone", "", dedup.ChangeOptions{Reason: "why"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dials atomic.Int64
			pool := f.db.Pool(t, func(config *pgxpool.Config) {
				config.ConnConfig.ConnectTimeout = 10 * time.Millisecond
				dial := config.ConnConfig.DialFunc
				config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					if dials.Add(1) <= 2 {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return dial(ctx, network, address)
				}
				config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
					if dials.Load() >= 2 {
						c.ConnectTimeout = 0
					}
					return nil
				}
			})
			require.NoError(t, do(newDeduper(t, pool, &f.opts)))
			require.GreaterOrEqual(t, dials.Load(), int64(3))
		})
	}
}

// Followers of a call that used up its attempts make theirs at once, and not one after the other.
func TestOutageOfTwins(t *testing.T) {
	t.Parallel()

	retry := quickRetry
	retry.MaxAttempts = 1
	ctx, o := newOutage(t, dedup.Options{Retry: retry})
	o.tried.Store(0)
	held, together := newGate(), newGate()
	o.dialing = func(ctx context.Context, n int) error {
		switch n {
		case 1:
			return held.pass(ctx)
		case 3:
			together.release()
		}
		return together.pass(ctx)
	}
	d := o.cold(t)
	leader := start(ctx, d, call("k"), effect("k"))
	receive(t, ctx, held.entered)
	var twins []<-chan answered
	for range 5 {
		twins = append(twins, start(ctx, d, call("k"), effect("k")))
	}
	require.NoError(t, o.events.untilWaiting(ctx, len(twins), 0))
	held.release()
	requireExhausted(t, receive(t, ctx, leader).err, 1)
	for _, twin := range twins {
		requireExhausted(t, receive(t, ctx, twin).err, 1)
	}
}

// A fault that ended one call is not the answer of a call that began later.
func TestOutageEndsForLaterTwins(t *testing.T) {
	t.Parallel()

	retry := quickRetry
	retry.MaxAttempts = 1
	ctx, o := newOutage(t, dedup.Options{Retry: retry})
	o.tried.Store(0)
	held := newGate()
	o.dialing = func(ctx context.Context, n int) error {
		if n == 1 {
			return held.pass(ctx)
		}
		o.proxy.Refuse(false)
		return nil
	}
	d := o.cold(t)
	leader := start(ctx, d, call("k"), effect("k"))
	receive(t, ctx, held.entered)
	later := start(ctx, d, call("k"), effect("k")) // in the middle of the only attempt
	require.NoError(t, o.events.untilWaiting(ctx, 1, 0))
	held.release()
	requireExhausted(t, receive(t, ctx, leader).err, 1)
	require.False(t, receive(t, ctx, later).require(t).Replayed)
	require.Equal(t, 1, o.effects(t, "k"))
}

// A call whose own context ends does not end its twins.
func TestOutageCancelled(t *testing.T) {
	t.Parallel()

	ctx, o := newOutage(t, dedup.Options{Retry: quickRetry})
	held := newGate()
	o.dialing = func(ctx context.Context, _ int) error { return held.pass(ctx) }
	d := o.cold(t)
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	leader := start(calling, d, call("k"), effect("k"))
	receive(t, ctx, held.entered)
	follower := start(ctx, d, call("k"), effect("k"))
	require.NoError(t, o.events.untilWaiting(ctx, 1, 0))
	cancel()
	require.ErrorIs(t, receive(t, ctx, leader).err, context.Canceled)
	o.proxy.Refuse(false)
	held.release()
	require.False(t, receive(t, ctx, follower).require(t).Replayed)
	require.Equal(t, 1, o.effects(t, "k"))
}

// The calls of a chunk have one budget of attempts between them.
func TestOutageOfBatch(t *testing.T) {
	t.Parallel()

	ctx, o := newOutage(t, dedup.Options{Retry: quickRetry})
	const attempts = 12
	one := o.dials(func() {
		_, err := dedup.Do(ctx, o.cold(t), call("k"), effect("k"))
		requireExhausted(t, err, attempts)
	})
	d, calls := o.cold(t), singles("k", 100)
	calls = append(calls, calls[0])
	all := o.dials(func() {
		for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(calls), &dedup.BatchOptions{Size: len(calls)}) {
			requireExhausted(t, out.Err, attempts)
		}
	})
	require.LessOrEqual(t, all, one+2, "connections that were tried: one for the chunk itself, and one for a look")

	o.proxy.Refuse(false)
	_, err := byBatch(ctx, d, calls)
	require.NoError(t, err)
	o.exactly(t, 100)
}

// If the outage loses the answer to a COMMIT, every call of the chunk returns ErrOutcomeUnknown.
func TestOutageAtCommitOfBatch(t *testing.T) {
	t.Parallel()

	ctx, o := newOutage(t, dedup.Options{Retry: quickRetry})
	o.proxy.Refuse(false)
	_, err := byBatch(ctx, o.d, singles("warm", 2))
	require.NoError(t, err)
	lost := o.proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: func(u faultproxy.Unit) bool {
		if atChunk(u) {
			o.proxy.Refuse(true)
			return true
		}
		return false
	}})
	tried := o.dials(func() {
		for out := range dedup.DoBatch[ticket](ctx, o.d, slices.Values(singles("k", 100)), nil) {
			var unknown *dedup.Error
			require.ErrorAs(t, out.Err, &unknown)
			require.NotErrorIs(t, out.Err, dedup.ErrAttemptsExhausted, "which says that nothing was committed")
		}
	})
	require.Equal(t, 1, lost.Count())
	require.LessOrEqual(t, tried, 12, "connections that were tried")

	o.proxy.Refuse(false)
	for out := range dedup.DoBatch[ticket](ctx, o.d, slices.Values(singles("k", 100)), nil) {
		require.NoError(t, out.Err)
		require.True(t, out.Result.Replayed)
	}
	o.exactly(t, 102)
}

// A call that breaks each of its connections is not treated as an outage.
func TestBatchWithOneThatBreaksItsConnection(t *testing.T) {
	t.Parallel()

	for _, w := range separateWays() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			retry := quickRetry
			retry.MaxAttempts = 3
			ctx, f := w.setup(t, &dedup.Options{Retry: retry})
			calls := singles("k", 5)
			calls[0].Statement.SQL = `WITH e AS (` + effectSQL + `) SELECT id, title, pg_terminate_backend(pg_backend_pid()) FROM e`
			for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values(calls), nil) {
				if out.Index == 0 {
					requireExhausted(t, out.Err, 3)
				} else {
					require.NoError(t, out.Err)
				}
			}
			f.exactly(t, 4)
		})
	}
}
