package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

func caseMaxWaitNone(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	e, land := f.inFlight(t, ctx, f.d, call("k"))

	impatient := call("k")
	impatient.MaxWait = -1
	for _, d := range []*dedup.Deduper{f.d, f.peer(t)} {
		result, err := f.do(ctx, d, impatient, e.run)
		require.ErrorIs(t, err, dedup.ErrInFlight)
		require.True(t, dedup.IsRetryable(err))
		require.Less(t, result.Waited, time.Second)
	}

	land()
	result, err := f.do(ctx, f.d, impatient, e.run)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseMaxWaitBounded(t *testing.T, p profile) {
	const bound = 20 * time.Millisecond
	ctx, f := p.setup(t, &dedup.Options{MaxWait: bound})
	e, land := f.inFlight(t, ctx, f.d, call("k"))

	for _, d := range []*dedup.Deduper{f.d, f.peer(t)} {
		result, err := f.do(ctx, d, call("k"), e.run)
		require.ErrorIs(t, err, dedup.ErrInFlight)
		require.GreaterOrEqual(t, result.Waited, bound)
	}
	waits := f.events.ended(dedup.OutcomeInFlight)
	require.Len(t, waits, 2)
	require.Len(t, events[dedup.WaitStartData](f.events), 2, "each is told once, however often it looks")
	for _, w := range waits {
		require.ErrorIs(t, w.Err, dedup.ErrInFlight)
		require.GreaterOrEqual(t, w.Waited, bound)
	}

	land()
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseWaitCancelled(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	e, land := f.inFlight(t, ctx, f.d, call("k"))

	impatience := errors.New("the user has gone")
	waiting, cancel := context.WithCancelCause(ctx)
	here := f.start(waiting, f.d, call("k"), e.run)
	there := f.start(waiting, f.peer(t), call("k"), e.run)
	require.NoError(t, f.events.untilWaiting(ctx, 1, 1))
	cancel(impatience)
	for _, twin := range []<-chan answered{here, there} {
		a := receive(t, ctx, twin)
		require.ErrorIs(t, a.err, context.Canceled)
		require.ErrorIs(t, a.err, impatience)
		require.NotErrorIs(t, a.err, dedup.ErrOutcomeUnknown)
	}

	land()
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

// followers starts a twin in the same process and one in another, and waits
// until both wait.
func (f *fixture) followers(t *testing.T, ctx context.Context, effect dedup.Effect[ticket]) []<-chan answered {
	t.Helper()
	twins := []<-chan answered{f.start(ctx, f.d, call("k"), effect), f.start(ctx, f.peer(t), call("k"), effect)}
	require.NoError(t, f.events.untilWaiting(ctx, 1, 1))
	return twins
}

func caseLeaderCancelled(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	held := newGate()
	leading, cancel := context.WithCancel(ctx)
	leader := f.start(leading, f.d, call("k"), (&tool{ref: "k", then: held.then}).run)
	receive(t, ctx, held.entered)

	e := &tool{ref: "k"}
	twins := f.followers(t, ctx, e.run)
	cancel()
	require.ErrorIs(t, receive(t, ctx, leader).err, context.Canceled)
	requireTwins(t, []dedup.Result[ticket]{receive(t, ctx, twins[0]).require(t), receive(t, ctx, twins[1]).require(t)})
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseLeaderPanics(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	held := newGate()
	leader := f.start(ctx, f.d, call("k"), (&tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
		_ = held.pass(ctx)
		panic("out of paper")
	}}).run)
	receive(t, ctx, held.entered)

	e := &tool{ref: "k"}
	twins := f.followers(t, ctx, e.run)
	held.release()
	require.Equal(t, "out of paper", receive(t, ctx, leader).panicked)
	requireTwins(t, []dedup.Result[ticket]{receive(t, ctx, twins[0]).require(t), receive(t, ctx, twins[1]).require(t)})
	require.Equal(t, 1, f.effects(t, "k"))
	f.eventually(t, `SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`)
}

// caseBornExpired has an effect that takes longer than its result is kept.
func caseBornExpired(t *testing.T, p profile) {
	ctx, f := p.setup(t, &dedup.Options{Retention: dedup.Retention{Result: 20 * time.Millisecond, Tombstone: time.Hour}})
	f.exec(t, `CREATE TABLE began (at timestamptz)`)
	result, err := f.do(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO began VALUES (now())`); err != nil {
			return ticket{}, err
		}
		_, err := tx.Exec(ctx, `SELECT pg_sleep(0.04)`)
		return ticket{}, err
	})
	require.NoError(t, err)
	require.Equal(t, 20*time.Millisecond, result.ExpiresAt.Sub(result.CreatedAt)) // of one reading of the clock
	require.True(t, scalar[bool](t, f.bundle, `SELECT created_at >= at + interval '40 ms' AND expires_at >= created_at + interval '20 ms'
		AND forget_at >= expires_at + interval '1 h' FROM tool_dedup, began`))
}

// TestWaitingTwinsHoldNoConnection has 200 twins of one held effect wait in two
// processes with four connections each, and calls of other identities pass them.
func TestWaitingTwinsHoldNoConnection(t *testing.T) {
	t.Parallel()

	const twins = 100 // in each process
	for _, order := range []orderKind{lockFirst, claimFirst} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{order: order, isolation: pgx.ReadCommitted}.setup(t, nil)
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
				a := receive(t, ctx, p).require(t)
				answers = append(answers, a)
				if a.Replayed && order == lockFirst {
					require.Zero(t, a.Attempts, "a call that waits opens no transaction for it")
				}
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

// TestWaitOutlivesAFault: a transient fault of a look does not end the wait.
func TestWaitOutlivesAFault(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	waiter := newDeduper(t, f.db.Pool(t, poolOfOne, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = "waiter"
	}), &f.opts)
	_, land := f.inFlight(t, ctx, f.d, call("k"))
	waiting := start(ctx, waiter, call("k"), effect("k"))
	require.NoError(t, f.events.untilWaiting(ctx, 0, 1))

	ended := scalar[int](t, f.bundle, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'waiter'`)
	require.Positive(t, ended)
	land()
	require.True(t, receive(t, ctx, waiting).require(t).Replayed)
}

// TestTakeover: a record that may be forgotten is taken over by the next call.
// Whoever holds its row is met before the effect, and within MaxWait.
func TestTakeover(t *testing.T) {
	t.Parallel()

	// archived has a sweep whose hook holds the forgotten record of "k". The
	// sweep ends when finish is called.
	archived := func(t *testing.T, p profile) (ctx context.Context, f *fixture, finish func()) {
		ctx, f = p.setup(t, &dedup.Options{Retry: quickRetry})
		_, err := dedup.Do(ctx, f.d, call("k"), effect("first"))
		require.NoError(t, err)
		f.age(t, "k", "100 days")
		hook, swept, peer := newGate(), make(chan error, 1), f.peer(t)
		go func() {
			_, err := peer.Sweep(ctx, &dedup.SweepOptions{Archive: func(ctx context.Context, _ pgx.Tx, _ []dedup.SweptRecord) error {
				return hook.pass(ctx)
			}})
			swept <- err
		}()
		receive(t, ctx, hook.entered)
		return ctx, f, func() {
			hook.release()
			require.NoError(t, receive(t, ctx, swept))
		}
	}

	t.Run("WithinMaxWait", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f, finish := archived(t, p)
			e := &tool{ref: "k"}
			for _, wait := range []time.Duration{-1, 20 * time.Millisecond} {
				c := call("k")
				c.MaxWait = wait
				_, err := dedup.Do(ctx, f.d, c, e.run)
				_, errStatement := dedup.DoStatement[ticket](ctx, f.d, c, dedup.SQL(`SELECT 1 AS id`))
				tx := f.begin(t, ctx)
				_, errTx := dedup.DoTx(ctx, f.d, tx, c, e.run)
				if p.locks() { // the lock shows that it is not a twin
					require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
					requireState(t, err, "55P03")
					require.ErrorIs(t, errStatement, dedup.ErrAttemptsExhausted)
					require.ErrorIs(t, errTx, dedup.ErrRestartTx)
				} else {
					require.ErrorIs(t, err, dedup.ErrInFlight)
					require.ErrorIs(t, errStatement, dedup.ErrInFlight)
					require.ErrorIs(t, errTx, dedup.ErrInFlight)
				}
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
				requireUsable(t, ctx, tx)
				require.NoError(t, tx.Rollback(ctx))
			}
			e.requireRuns(t, 0)
			finish()
			got, err := dedup.Do(ctx, f.d, call("k"), e.run)
			require.NoError(t, err)
			require.False(t, got.Replayed)
			require.Equal(t, 1, f.effects(t, "k"))
		})
	})

	t.Run("WaitsForTheSweep", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f, finish := archived(t, p)
			e := &tool{ref: "k"}
			pending := start(ctx, f.d, call("k"), e.run)
			require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
			e.requireRuns(t, 0)
			finish()
			require.False(t, receive(t, ctx, pending).require(t).Replayed)
			e.requireRuns(t, 1)
			require.Equal(t, 1, f.effects(t, "k"))
			require.Equal(t, 1, f.records(t))
		})
	})

	// With ClaimFirst a twin may be faster while the DELETE is on its way; it
	// then holds the row's place.
	t.Run("TwinIsFaster", func(t *testing.T) {
		t.Parallel()
		ctx, f, proxy := proxied(t, profile{order: claimFirst, isolation: pgx.ReadCommitted}, nil)
		direct := f.direct(t)
		_, err := dedup.Do(ctx, direct, call("k"), effect("first"))
		require.NoError(t, err)
		f.age(t, "k", "100 days")
		c := call("k")
		c.MaxWait = -1
		held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtSQL("DELETE FROM")})
		late := start(ctx, f.d, c, effect("k"))
		require.NoError(t, held.Wait(ctx))
		running := newGate()
		twin := start(ctx, direct, c, (&tool{ref: "k", then: running.then}).run)
		receive(t, ctx, running.entered)
		held.Release()
		require.ErrorIs(t, receive(t, ctx, late).err, dedup.ErrInFlight)
		running.release()
		require.False(t, receive(t, ctx, twin).require(t).Replayed)
		require.Equal(t, 1, f.effects(t, "k"))
	})
}
