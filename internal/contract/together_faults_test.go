package contract_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestTogetherCommitFaults lets every fault hit the unit that carries the COMMIT.
func TestTogetherCommitFaults(t *testing.T) {
	t.Parallel()

	for _, w := range togetherWays() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, w.profile, &dedup.Options{Retry: quickRetry})
			f.exec(t, fixtureSQL)
			direct, hasty := f.direct(t), f.hasty(t)
			keys := 0
			for i, fault := range everyFault() {
				name := fmt.Sprintf("%d %s", i, fault.Kind)
				fault.Where = faultproxy.AtCommit
				armed := proxy.Arm(fault)
				calls := singles(name, 5)
				d := f.d
				if fault.Kind == faultproxy.Blackhole {
					d = hasty
				}
				results, err := dedup.DoTogether[ticket](ctx, d, calls)
				require.NoError(t, err, name)
				require.Equal(t, 1, armed.Count(), name)
				require.NoError(t, armed.WaitSettled(ctx))
				again, err := dedup.DoTogether[ticket](ctx, direct, calls)
				require.NoError(t, err, name)
				for i, r := range results {
					require.Equal(t, r.Value, again[i].Value, name)
					require.True(t, again[i].Replayed)
					require.Equal(t, results[0].Recovered, r.Recovered, name)
					require.Equal(t, r.Recovered, r.Replayed, name)
				}
				keys += 5
				f.exactly(t, keys)
			}
		})
	}
}

// onRetried is a tracer that does something before each further attempt.
type onRetried func()

func (do onRetried) TraceRetried(context.Context, dedup.RetriedData) { do() }

// TestTogetherExpiredBehindALostCommit: all is committed and found, so it is answered as
// committed, although a result has expired meanwhile.
func TestTogetherExpiredBehindALostCommit(t *testing.T) {
	t.Parallel()

	for _, before := range []int{0, 1} { // calls that were made earlier
		t.Run(fmt.Sprint(before, "MadeBefore"), func(t *testing.T) {
			t.Parallel()
			var expire func()
			ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: quickRetry, Tracer: onRetried(func() { expire() })})
			f.exec(t, fixtureSQL)
			direct := f.direct(t)
			expire = func() {
				_, err := direct.Pool().Exec(ctx, `UPDATE tool_dedup SET expires_at = created_at WHERE key = (SELECT max(key) FROM tool_dedup)`)
				require.NoError(t, err)
			}
			calls := singles("k", 5)
			for _, c := range calls[:before] {
				_, err := dedup.DoStatement[ticket](ctx, direct, c.Call, c.Statement)
				require.NoError(t, err)
			}
			lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
			results, err := dedup.DoTogether[ticket](ctx, f.d, calls)
			require.Equal(t, 1, lost.Count())
			require.ErrorIs(t, err, dedup.ErrExpired)
			require.Len(t, results, 5)
			for _, r := range results[before:] {
				require.True(t, r.Recovered)
			}
			f.exactly(t, 5)
		})
	}
}

// What cannot be found out is said, and found out later.
func TestTogetherOutcomeUnknown(t *testing.T) {
	t.Parallel()

	retry := quickRetry
	retry.MaxAttempts = 3
	ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: retry})
	f.exec(t, fixtureSQL)
	_, err := dedup.DoTogether[ticket](ctx, f.d, singles("warm", 2))
	require.NoError(t, err)
	lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: func(u faultproxy.Unit) bool {
		if u.Commits {
			proxy.Refuse(true)
		}
		return u.Commits
	}})
	_, err = dedup.DoTogether[ticket](ctx, f.d, singles("k", 5))
	require.Equal(t, 1, lost.Count())
	var unknown *dedup.Error
	var named *dedup.BatchError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, 3, unknown.Attempts)
	require.NotErrorAs(t, err, &named)
	require.True(t, dedup.IsRetryable(err))

	proxy.Refuse(false)
	results, err := dedup.DoTogether[ticket](ctx, f.d, singles("k", 5))
	require.NoError(t, err)
	for _, r := range results {
		require.True(t, r.Replayed)
	}
	f.exactly(t, 7)
}

// The COMMIT is under way while its calls have been tried again and wait for it.
func TestTogetherCommitComesLate(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: quickRetry})
	f.exec(t, fixtureSQL)
	late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Delayed, Where: faultproxy.AtCommit})
	done := make(chan error, 1)
	var results []dedup.Result[ticket]
	go func() {
		var err error
		results, err = dedup.DoTogether[ticket](ctx, f.d, singles("k", 5))
		done <- err
	}()
	require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
	f.exactlyUncommitted(t)
	late.Release()
	require.NoError(t, receive(t, ctx, done))
	for _, r := range results {
		require.True(t, r.Recovered)
	}
	f.exactly(t, 5)
	require.Equal(t, 5, scalar[int](t, f.bundle, `SELECT last_value FROM runs`), "runs")
}

func (f *fixture) exactlyUncommitted(t *testing.T) {
	t.Helper()
	require.Zero(t, f.records(t))
}

// The caller's end does not touch a COMMIT that has been sent.
func TestTogetherCancelled(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	f.exec(t, fixtureSQL)
	for _, c := range []struct {
		where     func(faultproxy.Unit) bool
		committed bool
	}{{faultproxy.AtCommit, true}, {faultproxy.AtSQL("insert into effects"), false}} {
		held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: c.where})
		calling, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			_, err := dedup.DoTogether[ticket](calling, f.d, singles(fmt.Sprint(c.committed), 5))
			done <- err
		}()
		require.NoError(t, held.Wait(ctx))
		cancel()
		if c.committed {
			held.Release()
			require.NoError(t, receive(t, ctx, done))
		} else {
			require.ErrorIs(t, receive(t, ctx, done), context.Canceled)
			held.Release()
		}
	}
	f.exactly(t, 5)
}

// A lost race, a constraint that is checked at COMMIT, and a backend that ends.
func TestTogetherServerFaults(t *testing.T) {
	t.Parallel()

	for _, w := range []batchWay{{profile: plain}, {profile: profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}}, {profile: profile{order: dedup.LockFirst, isolation: pgx.Serializable}}} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()

			t.Run("LostRace", func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, w.profile, &dedup.Options{Retry: quickRetry})
				f.exec(t, fixtureSQL)
				held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtCommit})
				done := make(chan error, 1)
				var results []dedup.Result[ticket]
				go func() {
					var err error
					results, err = dedup.DoTogether[ticket](ctx, f.d, singles("k", 5))
					done <- err
				}()
				require.NoError(t, held.Wait(ctx))
				require.NoError(t, f.rival(ctx, call("k-0003"), "k-0003", ticket{ID: 99, Title: "k-0003"}))
				held.Release()
				require.NoError(t, receive(t, ctx, done))
				for i, r := range results {
					require.Equal(t, i == 3, r.Replayed)
					require.False(t, r.Recovered)
				}
				require.Equal(t, 99, results[3].Value.ID)
				f.exec(t, `UPDATE effects SET run = 99 WHERE ref = 'k-0003'`)
				f.exactly(t, 5)
			})

			t.Run("DeferredConstraint", func(t *testing.T) {
				t.Parallel()
				ctx, f := w.setup(t, &dedup.Options{Retry: quickRetry})
				f.exec(t, `ALTER TABLE effects ADD CONSTRAINT once UNIQUE (ref) DEFERRABLE INITIALLY DEFERRED;
					INSERT INTO effects VALUES ('k-0003', 0)`)
				_, err := dedup.DoTogether[ticket](ctx, f.d, singles("k", 5))
				requireState(t, err, "23505")
				var named *dedup.BatchError
				require.NotErrorAs(t, err, &named, "nobody knows whose it is")
				require.Zero(t, f.records(t))
			})

			t.Run("BackendTerminated", func(t *testing.T) {
				t.Parallel()
				ctx, f := w.setup(t, &dedup.Options{Retry: quickRetry})
				c := single("k-end")
				c.Statement.SQL = `WITH e AS (` + effectSQL + `) SELECT id, title, CASE WHEN id < 6 THEN pg_terminate_backend(pg_backend_pid()) END FROM e`
				results, err := dedup.DoTogether[ticket](ctx, f.d, append(singles("k", 5), c))
				require.NoError(t, err)
				require.Len(t, results, 6)
				f.exactly(t, 6)
			})

			t.Run("TransientOnce", func(t *testing.T) {
				t.Parallel()
				ctx, f := w.setup(t, &dedup.Options{Retry: quickRetry})
				c := single("k-end")
				c.Statement.SQL = `WITH e AS (` + effectSQL + `) SELECT id, title, CASE WHEN id < 8 THEN fail('40P01') END FROM e`
				results, err := dedup.DoTogether[ticket](ctx, f.d, append(singles("k", 5), c))
				require.NoError(t, err)
				require.Equal(t, 2, results[5].Attempts)
				require.Len(t, events[dedup.RetriedData](f.events), 1)
				f.exactly(t, 6)
			})
		})
	}
}

// A trigger that came later swallows one record: that is reported after the others that
// share its transaction. Nothing is run after it.
func TestTogetherSwallowed(t *testing.T) {
	t.Parallel()

	for _, w := range []batchWay{{profile: plain}, {profile: plain, separate: true}} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := w.setup(t, nil)
			_, err := dedup.DoTogether[ticket](ctx, f.d, singles("warm", 1))
			require.NoError(t, err)
			f.exec(t, `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN IF NEW.outcome = 'done' AND NEW.key LIKE '%-0003' THEN RETURN NULL; END IF; RETURN NEW; END $$;
				CREATE TRIGGER swallow BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION swallow()`)
			ran := 5
			if w.separate {
				ran = 4
				for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values(singles("k", 5)), nil) {
					switch out.Index {
					case 3:
						require.ErrorIs(t, out.Err, dedup.ErrBroken)
					case 4:
						require.ErrorIs(t, out.Err, dedup.ErrSchema)
					default:
						require.NoError(t, out.Err)
					}
				}
			} else {
				results, err := dedup.DoTogether[ticket](ctx, f.d, singles("k", 5))
				var named *dedup.BatchError
				require.ErrorAs(t, err, &named)
				require.ErrorIs(t, err, dedup.ErrBroken)
				require.Equal(t, 3, named.Index)
				require.Len(t, results, 5)
				require.Equal(t, "k-0004", results[4].Value.Title)
			}
			require.Equal(t, ran, scalar[int](t, f.bundle, `SELECT count(*) FROM effects WHERE ref LIKE 'k-%'`))
			require.Equal(t, ran-1, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE key LIKE 'k-%' AND outcome = 'done'`))
			_, err = dedup.DoTogether[ticket](ctx, f.d, singles("k", 5))
			require.ErrorIs(t, err, dedup.ErrSchema, "and nothing more is run")
		})
	}
}

// A result that does not fit is reported after all has been committed.
func TestTogetherUnfitResult(t *testing.T) {
	t.Parallel()

	ctx, f := batchWay{profile: plain}.setup(t, nil)
	calls := singles("k", 3)
	calls[1].Statement.SQL = `INSERT INTO effects (ref, run) VALUES ($1, nextval('runs')) RETURNING run AS id, 7 AS title`
	for _, replayed := range []bool{false, true} {
		results, err := dedup.DoTogether[ticket](ctx, f.d, calls)
		var named *dedup.BatchError
		var unfit *dedup.InvalidError
		require.ErrorAs(t, err, &named)
		require.ErrorAs(t, err, &unfit)
		require.NotNil(t, unfit.Stored)
		require.Equal(t, 1, named.Index)
		require.Len(t, results, 3)
		require.Equal(t, "k-0002", results[2].Value.Title)
		require.Equal(t, replayed, results[2].Replayed)
	}
	f.exactly(t, 3)
}

// An OnError runs after the rollback: it may use the pool.
func TestTogetherOnErrorHoldsNothing(t *testing.T) {
	t.Parallel()

	ctx, f := batchWay{profile: plain}.setup(t, nil, func(config *pgxpool.Config) { config.MaxConns = 1 })
	c := spoiling("k-0003", "23514")
	c.Statement.OnError = func(err error) error {
		result, doErr := dedup.Do(ctx, f.d, call("other"), effect("other"))
		require.NoError(t, doErr)
		require.False(t, result.Replayed)
		return errPaper
	}
	_, err := dedup.DoTogether[ticket](ctx, f.d, append(singles("k", 3), c))
	require.ErrorIs(t, err, errPaper)
	require.Zero(t, f.effects(t, "k-0000"))
}
