package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

var quickRetry = dedup.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond}

// direct returns a Deduper that does not go through the proxy.
func (f *fixture) direct(t *testing.T) *dedup.Deduper {
	t.Helper()
	return newDeduper(t, f.db.Pool(t), &dedup.Options{Isolation: f.profile.isolation})
}

// hasty returns a Deduper for a COMMIT that is never answered: only there may its CommitTimeout
// pass, for a machine may be slow.
func (f *fixture) hasty(t *testing.T) *dedup.Deduper {
	t.Helper()
	opts := f.opts
	opts.CommitTimeout = 300 * time.Millisecond
	return newDeduper(t, f.pool, &opts)
}

// cancelledAt returns a context that is cancelled as soon as the fault is applied.
func cancelledAt(ctx context.Context, armed *faultproxy.Armed) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		if armed.Wait(ctx) == nil {
			cancel()
		}
	}()
	return ctx, cancel
}

func TestCommit(t *testing.T) {
	t.Parallel()

	for _, order := range []orderKind{lockFirst, claimFirst} {
		p := profile{order: order, isolation: pgx.ReadCommitted}
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()

			// The COMMIT is under way while its call has tried again and waits
			// for it.
			t.Run("DeliveredDuringTheRetry", func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
				late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Delayed, Where: faultproxy.AtCommit})
				e := &tool{ref: "k"}
				pending := start(ctx, f.d, call("k"), e.run)
				require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
				c := call("k")
				status, err := f.direct(t).Lookup(ctx, c.Scope, c.Tool, c.Key)
				require.NoError(t, err)
				require.Equal(t, dedup.StateInFlight, status.State)
				require.Zero(t, f.effects(t, "k"))
				late.Release()

				result := receive(t, ctx, pending).require(t)
				require.True(t, result.Recovered)
				require.Positive(t, result.Waited)
				e.requireRuns(t, 1)
				require.Equal(t, 1, f.effects(t, "k"))
				retried := events[dedup.RetriedData](f.events)
				require.Len(t, retried, 1)
				require.True(t, retried[0].Unknown)
			})

			t.Run("CallerCancelledMeanwhile", func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, p, nil)
				held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtCommit})
				e := &tool{ref: "k"}
				calling, cancel := context.WithCancel(ctx)
				pending := start(calling, f.d, call("k"), e.run)
				require.NoError(t, held.Wait(ctx))
				cancel()
				held.Release()
				result := receive(t, ctx, pending).require(t)
				require.False(t, result.Replayed)
				require.Equal(t, 1, f.effects(t, "k"))
			})

			t.Run("CallerCancelledBefore", func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, p, nil)
				calling, cancel := context.WithCancel(ctx)
				_, err := dedup.Do(calling, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
					got, err := effect("k")(ctx, tx)
					cancel()
					return got, err
				})
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
				require.Zero(t, proxy.Snapshot().Commits)
				require.Zero(t, f.effects(t, "k"))
			})

			t.Run("BackendTerminatedInTheEffect", func(t *testing.T) {
				t.Parallel()
				ctx, f := p.setup(t, &dedup.Options{Retry: quickRetry})
				for _, swallow := range []bool{false, true} {
					ref := fmt.Sprint("swallow ", swallow)
					e := &tool{ref: ref, then: func(ctx context.Context, tx pgx.Tx, run int) error {
						if run > 1 {
							return nil
						}
						_, err := tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`)
						if swallow {
							return nil
						}
						return err
					}}
					result, err := dedup.Do(ctx, f.d, call(ref), e.run)
					require.NoError(t, err)
					require.False(t, result.Replayed)
					e.requireRuns(t, 2)
					require.Equal(t, 1, f.effects(t, ref))
				}
			})

			t.Run("OutageInTheEffect", func(t *testing.T) {
				t.Parallel()
				retry := quickRetry
				retry.MaxAttempts = 3
				ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: retry})
				f.warm(t)
				e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, run int) error {
					if run > 1 {
						return nil
					}
					proxy.Refuse(true)
					proxy.CutAll()
					_, err := tx.Exec(ctx, `SELECT 1`)
					return err
				}}
				_, err := dedup.Do(ctx, f.d, call("k"), e.run)
				require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
				require.True(t, dedup.IsRetryable(err))
				require.Zero(t, f.effects(t, "k"))

				proxy.Refuse(false)
				result, err := dedup.Do(ctx, f.d, call("k"), e.run)
				require.NoError(t, err)
				require.False(t, result.Replayed)
				require.Equal(t, 1, f.effects(t, "k"))
			})

			t.Run("OutageAtCommitRiddenOut", func(t *testing.T) {
				t.Parallel()
				retry := quickRetry
				retry.MaxAttempts = 1000
				ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: retry})
				f.warm(t)
				e := &tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
					proxy.Refuse(true)
					return nil
				}}
				proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
				pending := start(ctx, f.d, call("k"), e.run)
				require.NoError(t, f.events.until(ctx, func(all []any) bool { return len(ofType[dedup.RetriedData](all)) > 3 }))
				proxy.Refuse(false)
				result := receive(t, ctx, pending).require(t)
				require.True(t, result.Recovered)
				e.requireRuns(t, 1)
				require.Equal(t, 1, f.effects(t, "k"))
			})
		})
	}
}

// TestAnswerLost: a call commits and its answer is lost. If the call cannot ask the server again,
// its outcome is unknown; the next try returns the record.
func TestAnswerLost(t *testing.T) {
	t.Parallel()

	for name, do := range ways {
		for _, order := range []orderKind{lockFirst, claimFirst} {
			if order == claimFirst && name != "Do" {
				continue
			}
			run := func(how string, commitTimeout time.Duration, lose func(t *testing.T, ctx context.Context, f *fixture, proxy *faultproxy.Proxy) error) {
				t.Run(fmt.Sprint(name, "-", order, "-", how), func(t *testing.T) {
					t.Parallel()
					retry := quickRetry
					retry.MaxAttempts = 3
					ctx, f, proxy := proxied(t, profile{order: order, isolation: pgx.ReadCommitted}, &dedup.Options{Retry: retry, CommitTimeout: commitTimeout})
					_, err := do(ctx, f.d, call("warm"))
					require.NoError(t, err)
					err = lose(t, ctx, f, proxy)
					require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
					require.NotErrorIs(t, err, dedup.ErrAttemptsExhausted)
					require.True(t, dedup.IsRetryable(err))

					replay, err := do(ctx, f.d, call("k"))
					require.NoError(t, err)
					require.True(t, replay.Replayed)
					require.Equal(t, 1, f.effects(t, "k"))
				})
			}
			run("GivesUp", 300*time.Millisecond, func(t *testing.T, ctx context.Context, f *fixture, proxy *faultproxy.Proxy) error {
				lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Blackhole, Where: atRecord})
				calling, cancel := context.WithCancel(ctx)
				pending := do.start(calling, f.d, call("k"))
				require.NoError(t, lost.Wait(ctx))
				cancel()
				a := receive(t, ctx, pending)
				require.ErrorIs(t, a.err, context.Canceled)

				// Before it is sent, it is known not to have happened.
				_, err := do(calling, f.d, call("never"))
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
				return a.err
			})
			run("Outage", 0, func(t *testing.T, ctx context.Context, f *fixture, proxy *faultproxy.Proxy) error {
				lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: func(u faultproxy.Unit) bool {
					if atRecord(u) {
						proxy.Refuse(true)
					}
					return atRecord(u)
				}})
				_, err := do(ctx, f.d, call("k"))
				var unknown *dedup.Error
				require.ErrorAs(t, err, &unknown)
				attempts := 3
				if name == "DoBatch" { // DoBatch makes one connection for all its calls
					attempts++
				}
				require.Equal(t, attempts, unknown.Attempts)
				require.NoError(t, lost.WaitSettled(ctx))
				proxy.Refuse(false)
				return err
			})
		}
	}
}
