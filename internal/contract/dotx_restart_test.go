package contract_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// stricter runs at the levels whose snapshots are older than their statements.
func stricter(t *testing.T, orders []orderKind, run func(t *testing.T, p profile)) {
	t.Helper()
	for _, order := range orders {
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			p := profile{order: order, isolation: level}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				run(t, p)
			})
		}
	}
}

// TestDoTxOwnViolation: at a stricter level, an effect that violates a constraint of its own table
// gets that violation. The caller is not told to restart the transaction for ever.
func TestDoTxOwnViolation(t *testing.T) {
	t.Parallel()

	stricter(t, []orderKind{lockFirst, claimFirst}, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		f.exec(t, `CREATE TABLE seats (n int UNIQUE, during int4range, EXCLUDE USING gist (during WITH &&)); INSERT INTO seats VALUES (1, '[1,5)')`)
		for code, sql := range map[string]string{
			"23505": `INSERT INTO seats VALUES (1)`,
			"23P01": `INSERT INTO seats VALUES (2, '[2,3)')`,
		} {
			tx := f.begin(t, ctx)
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, err := tx.Exec(ctx, sql)
				return err
			}}
			_, err := dedup.DoTx(ctx, f.d, tx, call("k"), e.run)
			requireState(t, err, code)
			require.NotErrorIs(t, err, dedup.ErrRestartTx)
			require.False(t, dedup.IsRetryable(err))
			e.requireRuns(t, 1)
			var timeout string
			require.NoError(t, tx.QueryRow(ctx, `SHOW lock_timeout`).Scan(&timeout))
			require.Equal(t, "0", timeout)
			requireUsable(t, ctx, tx)
			require.NoError(t, tx.Commit(ctx))
			require.Zero(t, f.records(t))
		}
	})
}

// TestDoTxViolationOfATwin: the effect violates a constraint because of a twin's row, and the
// snapshot hides the twin's record. The caller is told to restart the transaction. With ClaimFirst
// the claim meets that record before the effect.
func TestDoTxViolationOfATwin(t *testing.T) {
	t.Parallel()

	for code, table := range map[string]string{
		"23505": `CREATE UNIQUE INDEX ON effects (ref)`,
		"23P01": `ALTER TABLE effects ADD EXCLUDE (ref WITH =)`,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			stricter(t, []orderKind{lockFirst}, func(t *testing.T, p profile) {
				ctx, f := p.setup(t, nil)
				f.exec(t, table)
				tx := f.begin(t, ctx)
				requireUsable(t, ctx, tx) // takes the snapshot
				_, err := dedup.Do(ctx, f.peer(t), call("k"), effect("k"))
				require.NoError(t, err)

				_, err = dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
				requireState(t, err, code)
				require.ErrorIs(t, err, dedup.ErrRestartTx)
				require.NoError(t, tx.Rollback(ctx))
				replay, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call("k"), effect("k"))
				require.NoError(t, err)
				require.True(t, replay.Replayed)
				require.Equal(t, 1, f.effects(t, "k"))
			})
		})
	}
}

// TestDoTxOwnErrorBehindATwin: an effect that returns an error may have read a twin's write whose
// record the snapshot hides. The caller is told to restart the transaction, so that a twin's
// success is not answered with "balance too low".
func TestDoTxOwnErrorBehindATwin(t *testing.T) {
	t.Parallel()

	for name, refuse := range map[string]func(error) error{
		"Plain": func(err error) error { return err }, "Final": dedup.Final, "NotFinal": dedup.NotFinal,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stricter(t, []orderKind{lockFirst}, func(t *testing.T, p profile) {
				ctx, f := p.setup(t, nil)
				fails := (&tool{ref: "k", then: func(context.Context, pgx.Tx, int) error { return refuse(errPaper) }}).run
				tx := f.begin(t, ctx)
				requireUsable(t, ctx, tx) // takes the snapshot
				_, err := dedup.Do(ctx, f.peer(t), call("k"), effect("k"))
				require.NoError(t, err)
				_, err = dedup.DoTx(ctx, f.d, tx, call("k"), fails)
				require.ErrorIs(t, err, dedup.ErrRestartTx)
				require.NoError(t, tx.Rollback(ctx))

				// Without a twin it is the effect's error.
				tx = f.begin(t, ctx)
				_, err = dedup.DoTx(ctx, f.d, tx, call("alone"), fails)
				require.ErrorIs(t, err, errPaper)
				require.NotErrorIs(t, err, dedup.ErrRestartTx)
				requireUsable(t, ctx, tx)
			})
		})
	}
}

// TestDoTxLostBeforeItLooks: if the connection is lost between a conflict and its look-up, the
// cause of the conflict stays unknown.
func TestDoTxLostBeforeItLooks(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	f.warm(t)
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("rollback to savepoint")})
	_, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call("k"), (&tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
		return f.rivalDirect(t, call("k"))
	}}).run)
	require.ErrorIs(t, err, dedup.ErrRestartTx)
	require.True(t, dedup.IsRetryable(err))
	requireState(t, err, "23505")

	replay, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call("k"), effect("k"))
	require.NoError(t, err)
	require.True(t, replay.Replayed)
	require.Equal(t, 1, f.effects(t, "k"))
}

// TestDoTxDeadlock crosses two transactions: Postgres ends one of them, and its
// second run has the answers of the other.
func TestDoTxDeadlock(t *testing.T) {
	t.Parallel()

	for _, order := range []orderKind{lockFirst, claimFirst} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			p := profile{order: order, isolation: pgx.ReadCommitted}
			ctx, f := p.setup(t, nil, func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams["deadlock_timeout"] = "20ms"
			})
			a, b := &tool{ref: "a"}, &tool{ref: "b"}
			both := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
			cross := func(i int, one, two *tool) (restarts int, values [2]int, err error) {
				for {
					tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
					if err != nil {
						return restarts, values, err
					}
					values = [2]int{}
					for j, e := range []*tool{one, two} {
						var result dedup.Result[ticket]
						result, err = dedup.DoTx(ctx, f.d, tx, call(e.ref), e.run)
						if err != nil {
							break
						}
						values[(i+j)%2] = result.Value.ID
						if restarts == 0 && j == 0 {
							close(both[i])
							<-both[1-i]
						}
					}
					if err == nil {
						return restarts, values, tx.Commit(ctx)
					}
					_ = tx.Rollback(ctx)
					if !isRestart(err) {
						return restarts, values, err
					}
					restarts++
				}
			}
			type crossing struct {
				restarts int
				values   [2]int
				err      error
			}
			ab, ba := make(chan crossing, 1), make(chan crossing, 1)
			go func() { r, v, err := cross(0, a, b); ab <- crossing{r, v, err} }()
			go func() { r, v, err := cross(1, b, a); ba <- crossing{r, v, err} }()
			first, second := receive(t, ctx, ab), receive(t, ctx, ba)
			require.NoError(t, first.err)
			require.NoError(t, second.err)
			require.Positive(t, first.restarts+second.restarts)
			require.Equal(t, first.values, second.values)
			require.Equal(t, 1, f.effects(t, "a"))
			require.Equal(t, 1, f.effects(t, "b"))
			require.Equal(t, 2, f.records(t))
		})
	}
}

func isRestart(err error) bool { return errors.Is(err, dedup.ErrRestartTx) }
