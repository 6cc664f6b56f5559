package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestIsTransient(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"40001": true, "40P01": true, "55P03": true, "25006": true,
		"53100": true, "53200": true, "53300": true,
		"57P01": true, "57P02": true, "57P03": true, "57P04": true, "57P05": true,
		"08000": true, "08006": true, "08P01": true,
		"23505": false, "23514": false, "22P02": false, "42P01": false, "54000": false,
		"57014": false, "25P03": false, "25P02": false, "0A000": false, "XX000": false, "": false,
	} {
		require.Equal(t, want, dedup.IsTransient(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code})), code)
	}
	require.True(t, dedup.IsTransient(&pgconn.PgError{Code: "0A000", Routine: "RevalidateCachedQuery"}))
	require.False(t, dedup.IsTransient(errors.New("no seat left")))
	require.False(t, dedup.IsTransient(nil))

	_, err := pgx.Connect(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.Error(t, err)
	require.True(t, dedup.IsTransient(err), "nobody listens there")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = pgx.Connect(ended, "postgres://nobody@127.0.0.1:1/none")
	require.Error(t, err)
	require.False(t, dedup.IsTransient(err), "the caller gave up")
}

func TestIsRetryable(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		dedup.ErrInFlight, &dedup.OutcomeUnknownError{}, &dedup.AttemptsError{}, &dedup.RestartTxError{Err: errors.New("x")},
		context.Canceled, context.DeadlineExceeded, &pgconn.PgError{Code: "40001"},
		// It may have happened, whatever ended the attempts.
		&dedup.OutcomeUnknownError{Cause: context.Canceled}, &dedup.OutcomeUnknownError{Cause: &dedup.ResultError{Err: errors.New("x")}},
	} {
		require.True(t, dedup.IsRetryable(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
	for _, err := range []error{
		nil, errors.New("no seat left"),
		&dedup.KeyReusedError{}, &dedup.ExpiredError{}, &dedup.RefusedError{}, &dedup.ResultError{Err: errors.New("x")},
		&dedup.InvalidCallError{}, &dedup.ConflictError{}, &dedup.ArbiterError{}, dedup.ErrTxControl, dedup.ErrNested,
		// An answer stays one whatever it wraps.
		&dedup.BrokenError{Err: context.DeadlineExceeded}, &dedup.BrokenError{Err: &pgconn.PgError{Code: "40001"}},
	} {
		require.False(t, dedup.IsRetryable(err), "%v", err)
	}
}

// TestFinalContextError: a refusal is an answer even if the tool made it from a
// context's error, for the first caller as for the next.
func TestFinalContextError(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t, nil)
	for range 2 {
		_, err := dedup.Do(ctx, b.d, call("k"), func(context.Context, pgx.Tx) (int, error) {
			return 0, dedup.Final(context.DeadlineExceeded)
		})
		require.ErrorIs(t, err, dedup.ErrRefused)
		require.False(t, dedup.IsRetryable(err))
	}
}

// TestSilentEffect: the server ends a transaction whose effect does not talk to
// it for too long. That is told as what it is, at once, and not as a COMMIT
// whose answer was lost.
func TestSilentEffect(t *testing.T) {
	t.Parallel()
	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
			t.Run(order.String()+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, b := setup(t, nil)
				pool := b.db.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
				d := newDeduper(t, pool, &dedup.Options{Order: order, IdleTimeout: 20 * time.Millisecond})
				runs := 0
				_, err := dedup.Do(ctx, d, call("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
					runs++
					var pid int32
					if err := tx.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
						return 0, err
					}
					b.eventually(t, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, pid)
					return 1, nil
				})
				require.ErrorContains(t, err, "IdleTimeout")
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
				require.Equal(t, 1, runs)
				require.Zero(t, b.records(t))
			})
		}
	}
}
