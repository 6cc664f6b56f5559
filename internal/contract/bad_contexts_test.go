package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

func badContexts() []badRow {
	// within runs the call and cancels its context when signal closes.
	within := func(w *badWorld, signal <-chan struct{}, s step) error {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		answer := make(chan error, 1)
		go func() { answer <- w.doCtx(ctx, s) }()
		select {
		case <-signal:
		case err := <-answer:
			require.FailNow(w.t, "the call returned early", "%v", err)
		}
		cancel()
		return <-answer
	}
	nothing := func(context.Context, pgx.Tx) error { return nil }
	held := func(kind faultproxy.Kind, where func(faultproxy.Unit) bool) func(w *badWorld) error {
		return func(w *badWorld) error {
			armed := w.proxy.Arm(faultproxy.Fault{Kind: kind, Where: where})
			defer armed.Release()
			return within(w, armed.Applied(), nothing)
		}
	}
	unknown := func(t *testing.T, err error) {
		t.Helper()
		var outcome *dedup.OutcomeUnknownError
		require.ErrorAs(t, err, &outcome)
		require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, dedup.IsRetryable(err))
	}
	cause := errors.New("the reason")
	return []badRow{
		{name: "CancelledBefore", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			cancel()
			return w.doCtx(ctx, nothing)
		}},
		{name: "CancelledBeforeWithCause", want: is(context.Canceled, cause), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancelCause(w.ctx)
			cancel(cause)
			return w.doCtx(ctx, nothing)
		}},
		{name: "DeadlineBefore", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			ctx, cancel := context.WithDeadline(w.ctx, time.Now())
			defer cancel()
			return w.doCtx(ctx, nothing)
		}},
		{name: "CancelledInAcquire", want: is(context.Canceled), run: func(w *badWorld) error {
			for range w.pool.Config().MaxConns {
				conn, err := w.pool.Acquire(w.ctx)
				require.NoError(w.t, err)
				defer conn.Release()
			}
			ctx, cancel := context.WithCancel(w.ctx)
			w.traced.waiting = cancel
			err := w.doCtx(ctx, nothing)
			w.traced.waiting = nil
			return err
		}},
		{name: "DeadlineInAcquire", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			for range w.pool.Config().MaxConns {
				conn, err := w.pool.Acquire(w.ctx)
				require.NoError(w.t, err)
				defer conn.Release()
			}
			ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
			defer cancel()
			return w.doCtx(ctx, nothing)
		}},
		{name: "CancelledInOpen", proxied: true, want: is(context.Canceled), run: held(faultproxy.Hold, faultproxy.AtSQL("pg_try_advisory_xact_lock"))},
		{name: "CancelledAfterOpen", proxied: true, want: is(context.Canceled), run: held(faultproxy.ReplyDelayed, faultproxy.AtSQL("pg_try_advisory_xact_lock"))},
		{name: "CancelledInStatement", proxied: true, want: is(context.Canceled), run: held(faultproxy.Hold, faultproxy.AtSQL("insert into effects"))},
		{name: "CancelledAfterStatement", proxied: true, want: is(context.Canceled), run: held(faultproxy.ReplyDelayed, faultproxy.AtSQL("insert into effects"))},
		{name: "CancelledInEffect", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				cancel()
				_, err := tx.Exec(ctx, "SELECT 1")
				return err
			})
		}},
		{name: "CancelledInEffectOwnError", want: is(context.Canceled, errOwn), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(context.Context, pgx.Tx) error { cancel(); return errOwn })
		}},
		{name: "CancelledInEffectFinal", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(context.Context, pgx.Tx) error { cancel(); return dedup.Final(errOwn) })
		}},
		{name: "CancelledBeforeCommit", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(context.Context, pgx.Tx) error { cancel(); return nil })
		}},
		{name: "DeadlineInEffect", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
			defer cancel()
			return w.doCtx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
				return err
			})
		}},
		{name: "OwnDeadlineInEffect", opts: dedup.Options{StoreErrors: true}, want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				ctx, cancel := context.WithDeadline(ctx, time.Now())
				defer cancel()
				_, err := tx.Exec(ctx, "SELECT 1")
				return err
			})
		}},
		// A COMMIT that has been sent is finished.
		{name: "CancelledInCommit", proxied: true, want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			armed := w.proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtCommit})
			ctx, cancel := context.WithCancel(w.ctx)
			answer := make(chan error, 1)
			go func() { answer <- w.doCtx(ctx, nothing) }()
			require.NoError(w.t, armed.Wait(w.ctx))
			cancel()
			armed.Release()
			return <-answer
		}},
		{name: "CommitDropped", proxied: true, opts: dedup.Options{Retry: dedup.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}}, want: unknown,
			run: held(faultproxy.Dropped, faultproxy.AtCommit)},
		{name: "CommitNotAnsweredInTime", proxied: true, opts: dedup.Options{CommitTimeout: 200 * time.Millisecond}, want: unknown,
			records: 1, effects: 1, replays: true, run: held(faultproxy.Blackhole, faultproxy.AtCommit)},
		{name: "CommitAnswerLost", proxied: true, want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			w.proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
			result, err := dedup.Do(w.ctx, w.d, call("k"), step(nothing).effect())
			require.True(w.t, result.Recovered)
			return err
		}},
		{name: "CancelledWaiting", want: is(context.Canceled), records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.beside(func() error {
				ctx, cancel := context.WithCancel(w.ctx)
				w.traced.waiting = cancel // the twin looks from another Deduper
				defer func() { w.traced.waiting = nil }()
				_, err := dedup.Do(ctx, newDeduper(w.t, w.pool, nil), call("k"), effect("k"))
				return err
			})
		}},
		{name: "InFlight", want: is(dedup.ErrInFlight), records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.beside(func() error {
				c := call("k")
				c.MaxWait = -1
				is(dedup.ErrInFlight)(w.t, w.inTx(func(tx pgx.Tx) error {
					_, err := dedup.DoTx(w.ctx, w.d, tx, c, effect("k"))
					w.requireUsable(tx)
					return err
				}))
				return w.doWith(c)
			})
		}},
	}
}

// beside runs f while a twin of its call is in its effect, and lets the twin
// come to its end afterwards.
func (w *badWorld) beside(f func() error) error {
	entered, leave, answer := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		answer <- w.do(func(context.Context, pgx.Tx) error { close(entered); <-leave; return nil })
	}()
	<-entered
	err := caught(f)
	close(leave)
	require.NoError(w.t, <-answer)
	return err
}
