package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// beside writes something of the caller's own into a transaction.
func beside(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('beside')`)
	return err
}

func TestBeginFunc(t *testing.T) {
	t.Parallel()
	rows := map[string]func(t *testing.T, ctx context.Context, f *fixture){
		"Commits": func(t *testing.T, ctx context.Context, f *fixture) {
			for _, replayed := range []bool{false, true} {
				require.NoError(t, f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
					for _, key := range []string{"a", "b"} {
						result, err := dedup.DoTx(ctx, f.d, tx, call(key), effect(key))
						require.NoError(t, err)
						require.Equal(t, replayed, result.Replayed)
					}
					return nil
				}))
			}
			require.Equal(t, 2, f.records(t))
			require.Equal(t, 1, f.effects(t, "a"))
		},
		"CommitsARefusal": func(t *testing.T, ctx context.Context, f *fixture) {
			for _, replayed := range []bool{false, true} {
				err := f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
					require.NoError(t, beside(ctx, tx))
					_, err := dedup.DoTx(ctx, f.d, tx, call("k"), refuse(dedup.Final(errOwn)))
					return fmt.Errorf("paying: %w", err)
				})
				require.ErrorContains(t, err, "paying: ")
				require.Equal(t, replayed, refused(t, err).Replayed)
			}
			require.Equal(t, 1, f.records(t))
			require.Equal(t, 2, f.effects(t, "beside"))
			require.Zero(t, f.effects(t, "k"))
		},
		"RollsBackOnARefusalOfElsewhere": func(t *testing.T, ctx context.Context, f *fixture) {
			_, refusal := dedup.Do(ctx, f.d, call("elsewhere"), refuse(dedup.Final(errOwn)))
			require.Same(t, refusal, f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
				require.NoError(t, beside(ctx, tx))
				return refusal
			}))
			require.Zero(t, f.effects(t, "beside"))
		},
		"RollsBackOnAnError": func(t *testing.T, ctx context.Context, f *fixture) {
			runs := 0
			require.Same(t, errOwn, f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
				runs++
				_, err := dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
				require.NoError(t, err)
				return errOwn
			}))
			require.Equal(t, 1, runs)
			require.Zero(t, f.records(t))
			require.Zero(t, f.effects(t, "k"))
		},
		"RollsBackOnAPanic": func(t *testing.T, ctx context.Context, f *fixture) {
			require.PanicsWithValue(t, "oops", func() {
				_ = f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
					_, err := dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
					require.NoError(t, err)
					panic("oops")
				})
			})
			require.Zero(t, f.records(t))
			require.Zero(t, f.effects(t, "k"))
			require.Zero(t, f.pool.Stat().AcquiredConns())
		},
		"RollsBackWhenCancelled": func(t *testing.T, ctx context.Context, f *fixture) {
			ctx, cancel := context.WithCancel(ctx)
			err := f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
				cancel()
				return err
			})
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, f.records(t))
		},
		"Restarts": func(t *testing.T, ctx context.Context, f *fixture) {
			runs := 0
			require.NoError(t, f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
				if err := beside(ctx, tx); err != nil {
					return err
				}
				if runs++; runs == 1 { // a fault inside the call, of which the caller gets ErrRestartTx
					_, err := dedup.DoTx(ctx, f.d, tx, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
						_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40P01'; END $$`)
						return ticket{}, err
					})
					require.ErrorIs(t, err, dedup.ErrRestartTx)
					return err
				}
				if runs == 2 { // and one of the caller's own
					_, err := tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`)
					require.Error(t, err)
					return err
				}
				_, err := dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
				return err
			}))
			require.Equal(t, 3, runs)
			require.Equal(t, 1, f.effects(t, "beside"))
			require.Equal(t, 1, f.effects(t, "k"))
		},
		"GivesUp": func(t *testing.T, ctx context.Context, f *fixture) {
			runs := 0
			err := f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
				runs++
				_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$`)
				return err
			})
			require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
			require.NotErrorIs(t, err, dedup.ErrRestartTx)
			require.True(t, dedup.IsRetryable(err))
			require.Equal(t, f.d.Options().Retry.MaxAttempts, runs)
		},
		"Misuse": func(t *testing.T, ctx context.Context, f *fixture) {
			require.ErrorIs(t, f.d.BeginFunc(ctx, nil), dedup.ErrInvalid)
			_, err := dedup.Do(ctx, f.d, call("k"), func(ctx context.Context, _ pgx.Tx) (ticket, error) {
				return ticket{}, f.d.BeginFunc(ctx, func(pgx.Tx) error { return nil })
			})
			require.ErrorIs(t, err, dedup.ErrInvalid)
		},
		"EffectEndsIt": func(t *testing.T, ctx context.Context, f *fixture) {
			err := f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, f.d, tx, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
					_, err := tx.Conn().Exec(ctx, `COMMIT`)
					return ticket{}, err
				})
				return err
			})
			require.ErrorIs(t, err, dedup.ErrBroken)
			require.False(t, dedup.IsRetryable(err))
		},
	}
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, &dedup.Options{Retry: quickRetry})
		for name, run := range rows {
			t.Run(name, func(t *testing.T) { // one after the other: they share the database
				f.exec(t, `DELETE FROM effects; DELETE FROM tool_dedup`)
				f.d = newDeduper(t, f.pool, &f.opts)
				run(t, ctx, f)
			})
		}
	})
}

// Nobody knows whether a COMMIT whose answer is lost took place. BeginFunc says so, and does
// not run its function again, whose own writes would be there twice.
func TestBeginFuncLosesTheAnswerToCommit(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultproxy.Kind{"Committed": faultproxy.ReplyReset, "NotCommitted": faultproxy.Dropped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothOrders(t, func(t *testing.T, p profile) {
				ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
				proxy.Arm(faultproxy.Fault{Kind: fault, Where: faultproxy.AtCommit})
				runs := 0
				transfer := func(tx pgx.Tx) error {
					runs++
					_, err := dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
					return err
				}
				err := f.d.BeginFunc(ctx, transfer)
				require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
				require.True(t, dedup.IsRetryable(err))
				require.Equal(t, 1, runs)
				require.NoError(t, f.d.BeginFunc(ctx, transfer))
				require.Equal(t, 1, f.effects(t, "k"))
				require.Equal(t, 1, f.records(t))
			})
		})
	}
}
