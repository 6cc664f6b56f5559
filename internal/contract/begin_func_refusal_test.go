package contract_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestBeginFuncRefusals: BeginFunc commits on a refusal only if its record is in this very
// transaction, and nothing asks for another one.
func TestBeginFuncRefusals(t *testing.T) {
	t.Parallel()
	refuses := func(ctx context.Context, f *fixture, tx pgx.Tx) error {
		_, err := dedup.DoTx(ctx, f.d, tx, call("k"), refuse(dedup.Final(errOwn)))
		return err
	}
	type refusalCase struct {
		fn      func(t *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, run int) error
		commits bool
		runs    int
	}
	cases := map[string]refusalCase{
		"Nested": {commits: true, runs: 1, fn: func(t *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, _ int) (err error) {
			require.NoError(t, pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { err = refuses(ctx, f, tx); return nil }))
			return err
		}},
		"UndoneBySavepoint": {runs: 1, fn: func(_ *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, _ int) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return refuses(ctx, f, tx) })
		}},
		"UndoneBySQL": {runs: 1, fn: func(t *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, _ int) error {
			_, err := tx.Exec(ctx, `SAVEPOINT mine`)
			require.NoError(t, err)
			refusal := refuses(ctx, f, tx)
			_, err = tx.Exec(ctx, `ROLLBACK TO mine`)
			require.NoError(t, err)
			return refusal
		}},
		"UndoneByAnEffect": {runs: 1, fn: func(t *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, _ int) (inner error) {
			_, err := dedup.DoTx(ctx, f.d, tx, call("outer"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
				inner = refuses(ctx, f, tx)
				return ticket{}, errOwn
			})
			require.ErrorIs(t, err, errOwn)
			return inner
		}},
		"UndoneAndDoneOtherwise": {runs: 1, fn: func(t *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, _ int) error {
			refusal := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return refuses(ctx, f, tx) })
			_, err := dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
			require.NoError(t, err)
			return refusal
		}},
		"WithErrRestartTx": {runs: 2, commits: true, fn: func(t *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, run int) error {
			refusal := refuses(ctx, f, tx)
			if run == 1 {
				return errors.Join(refusal, dedup.ErrRestartTx)
			}
			return refusal
		}},
		"WithAFailedStatement": {runs: 1, fn: func(t *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, _ int) error {
			refusal := refuses(ctx, f, tx)
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			require.Error(t, err)
			return refusal
		}},
		"WithRowsLeftOpen": {runs: 1, fn: func(t *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, _ int) error {
			refusal := refuses(ctx, f, tx)
			_, err := tx.Query(ctx, `SELECT 1`)
			require.NoError(t, err)
			return refusal
		}},
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			bothOrders(t, func(t *testing.T, p profile) {
				p.mode = mode
				ctx, f := p.setup(t, &dedup.Options{Retry: quickRetry}, poolOfOne)
				var before error
				cases := maps.Clone(cases)
				cases["OfAnEarlierRun"] = refusalCase{runs: 2, fn: func(_ *testing.T, ctx context.Context, f *fixture, tx pgx.Tx, run int) error {
					if run > 1 {
						return before
					}
					before = refuses(ctx, f, tx)
					return dedup.ErrRestartTx
				}}
				for name, c := range cases {
					t.Run(name, func(t *testing.T) { // one after the other: they share the connection
						f.exec(t, `DELETE FROM effects; DELETE FROM tool_dedup`)
						runs := 0
						err := f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
							runs++
							require.NoError(t, beside(ctx, tx))
							return c.fn(t, ctx, f, tx, runs)
						})
						require.Error(t, err)
						require.False(t, dedup.IsRetryable(err))
						require.Equal(t, c.runs, runs)
						if c.commits {
							require.ErrorIs(t, err, dedup.ErrRefused)
							require.Equal(t, 1, f.effects(t, "beside"))
							require.Equal(t, 1, f.records(t))
						} else {
							require.Zero(t, f.effects(t, "beside"))
							require.Zero(t, f.records(t))
						}
					})
				}
			})
		})
	}
}
