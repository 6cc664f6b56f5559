package contract_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
)

// TestBeginFuncIsGuarded: the transaction of BeginFunc is guarded as an effect's is. What may not
// be committed is a definite error, whatever the function returns, and the function is not
// called again.
func TestBeginFuncIsGuarded(t *testing.T) {
	t.Parallel()
	returns := map[string]error{
		"nil": nil, "an error": errOwn, "what asks for another run": &dedup.Error{Kind: dedup.ErrRestartTx},
	}
	cases := map[string]struct {
		// spoil writes, and then does something that the guard refuses.
		spoil func(t *testing.T, ctx context.Context, tx pgx.Tx)
		// left is how many writes are committed: those before the function's own COMMIT.
		left int
		// own is true where an error of the function is the answer.
		own bool
	}{
		"Commit":   {spoil: func(t *testing.T, ctx context.Context, tx pgx.Tx) { require.Error(t, tx.Commit(ctx)) }},
		"Rollback": {spoil: func(t *testing.T, ctx context.Context, tx pgx.Tx) { require.Error(t, tx.Rollback(ctx)) }},
		"RowsLeftOpen": {own: true, spoil: func(t *testing.T, ctx context.Context, tx pgx.Tx) {
			_, err := tx.Query(ctx, `SELECT generate_series(1, 3)`)
			require.NoError(t, err)
		}},
		"IgnoredStatement": {own: true, spoil: func(t *testing.T, ctx context.Context, tx pgx.Tx) {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			require.Error(t, err)
		}},
	}
	for sql, left := range map[string]int{"COMMIT": 1, "ROLLBACK": 0, "COMMIT AND CHAIN": 1, "ROLLBACK AND CHAIN": 0} {
		c := cases[sql]
		c.spoil = func(t *testing.T, ctx context.Context, tx pgx.Tx) {
			_, err := tx.Exec(ctx, sql)
			require.ErrorIs(t, err, guard.ErrTxControl)
		}
		cases[sql] = c
		c.left = left
		c.spoil = func(t *testing.T, ctx context.Context, tx pgx.Tx) {
			_, err := tx.Conn().Exec(ctx, sql)
			require.NoError(t, err)
		}
		cases[sql+" past the guard"] = c
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, &dedup.Options{Retry: quickRetry})
			for name, c := range cases {
				for what, returned := range returns {
					if c.own && returned != nil {
						continue
					}
					t.Run(name+", and returns "+what, func(t *testing.T) { // one after the other: they share the database
						f.exec(t, `DELETE FROM effects; DELETE FROM tool_dedup`)
						runs := 0
						err := f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
							runs++
							require.NoError(t, beside(ctx, tx))
							c.spoil(t, ctx, tx)
							return returned
						})
						require.ErrorIs(t, err, dedup.ErrInvalid)
						require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
						require.False(t, dedup.IsRetryable(err), err)
						require.Equal(t, 1, runs)
						require.Equal(t, c.left, f.effects(t, "beside"))
					})
				}
			}
		})
	}

	t.Run("ClosedWhenItHasReturned", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		var used, unused pgx.Tx
		require.NoError(t, f.d.BeginFunc(ctx, func(tx pgx.Tx) error { used = tx; return beside(ctx, tx) }))
		require.NoError(t, f.d.BeginFunc(ctx, func(tx pgx.Tx) error { unused = tx; return nil }))
		for _, tx := range []pgx.Tx{used, unused} {
			for method, err := range everyMethod(ctx, tx) {
				require.ErrorIs(t, err, pgx.ErrTxClosed, method)
			}
			objects := tx.LargeObjects()
			_, err := objects.Create(ctx, 0)
			require.ErrorIs(t, err, pgx.ErrTxClosed)
			_, err = dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
			require.ErrorIs(t, err, dedup.ErrInvalid)
		}
		require.Equal(t, 1, f.effects(t, "beside"))
		require.Zero(t, f.records(t))
	})
}

// TestBeginFuncTx works on the transaction of BeginFunc as on any other: each use is the first.
func TestBeginFuncTx(t *testing.T) {
	t.Parallel()
	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, b := setup(t, nil, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			for name, use := range effectTxUses {
				if mode == pgx.QueryExecModeSimpleProtocol && name == "Prepare" {
					continue // pgx: a statement cannot be named there
				}
				t.Run(name, func(t *testing.T) { // one after the other: they share the database
					b.exec(t, `DELETE FROM effects`)
					require.ErrorIs(t, b.d.BeginFunc(ctx, func(tx pgx.Tx) error {
						require.NoError(t, use(t, ctx, tx))
						return errOwn
					}), errOwn)
					require.Zero(t, b.effects(t, "k"))
					require.NoError(t, b.d.BeginFunc(ctx, func(tx pgx.Tx) error { return use(t, ctx, tx) }))
					require.Equal(t, 1, b.effects(t, "k"))
				})
			}
		})
	}
}

// TestBeginFuncLostConnection: the end of a connection that the function returns asks for another
// run only if the transaction's own connection was lost.
func TestBeginFuncLostConnection(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, &dedup.Options{Retry: quickRetry})
	for name, err := range map[string]error{
		"EOF": io.EOF, "UnexpectedEOF": io.ErrUnexpectedEOF, "Closed": net.ErrClosed, "Net": &net.OpError{Op: "read", Err: errOwn},
	} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "-", own), func(t *testing.T) {
				t.Parallel()
				runs := 0
				failed := f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
					if runs++; runs > 1 {
						return nil
					}
					if _, lost := tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid()) WHERE $1`, own); own {
						require.Error(t, lost)
					}
					return fmt.Errorf("charging: %w", err)
				})
				if own {
					require.NoError(t, failed)
					require.Equal(t, 2, runs)
				} else {
					require.ErrorIs(t, failed, err)
					require.NotErrorIs(t, failed, dedup.ErrAttemptsExhausted)
					require.Equal(t, 1, runs)
				}
			})
		}
	}
}

// TestBeginFuncSettings: the transaction of BeginFunc is set up as that of Do, by whatever it
// begins with.
func TestBeginFuncSettings(t *testing.T) {
	t.Parallel()
	const settings = `SELECT array_agg(name || ' ' || setting ORDER BY name) FROM pg_settings
		 WHERE name IN ('idle_in_transaction_session_timeout', 'client_connection_check_interval', 'synchronous_commit', 'transaction_isolation')`
	ctx, f := profile{isolation: pgx.RepeatableRead}.setup(t, &dedup.Options{IdleTimeout: 4711 * time.Millisecond}, poolOfOne, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	show := func(ctx context.Context, tx pgx.Tx) (set []string, err error) {
		err = tx.QueryRow(ctx, settings).Scan(&set)
		return set, err
	}
	want, err := dedup.Do(ctx, f.d, call("do"), show)
	require.NoError(t, err)
	require.Contains(t, want.Value, "idle_in_transaction_session_timeout 4711")
	require.Contains(t, want.Value, "synchronous_commit on")
	require.Contains(t, want.Value, "transaction_isolation repeatable read")

	stranger := newDeduper(t, f.pool, &dedup.Options{IdleTimeout: time.Hour})
	for name, first := range map[string]func(tx pgx.Tx) error{
		"Statement": func(pgx.Tx) error { return nil },
		"DoTx": func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, f.d, tx, call("first"), effect("first"))
			return err
		},
		"DoTxOfAnotherDeduper": func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, stranger, tx, call("stranger"), effect("stranger"))
			return err
		},
	} {
		require.NoError(t, f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
			require.NoError(t, first(tx), name)
			got, err := show(ctx, tx)
			require.NoError(t, err, name)
			require.Equal(t, want.Value, got, name)
			return nil
		}))
	}
	require.Equal(t, 1, f.effects(t, "stranger"))
}

// TestSilentFunction is TestSilentEffect for BeginFunc.
func TestSilentFunction(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, &dedup.Options{IdleTimeout: time.Second}) // longer than a slow machine needs between two statements
	for name, then := range map[string]func(tx pgx.Tx) error{
		"Commits":  func(pgx.Tx) error { return nil },
		"GoesOn":   func(tx pgx.Tx) error { return beside(ctx, tx) },
		"Gives up": func(tx pgx.Tx) error { _ = beside(ctx, tx); return nil },
		"Calls": func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			err := f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
				runs++
				require.NoError(t, beside(ctx, tx))
				f.eventually(t, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, tx.Conn().PgConn().PID())
				return then(tx)
			})
			require.ErrorContains(t, err, "IdleTimeout")
			require.ErrorIs(t, err, dedup.ErrInvalid)
			require.Equal(t, 1, runs)
		})
	}
}
