package sqldedup_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// kill ends the session that a handle works in.
func (b bundle) kill(t *testing.T, on interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) {
	t.Helper()
	var pid int
	require.NoError(t, on.QueryRowContext(b.ctx, `SELECT pg_backend_pid()`).Scan(&pid))
	_, err := b.pool.Exec(b.ctx, `SELECT pg_terminate_backend($1, 10000)`, pid)
	require.NoError(t, err)
}

// TestHandleLosesItsConnection ends the session in the first run of an effect, which then misuses
// its handle. The misuse is ignored, and the effect runs again.
func TestHandleLosesItsConnection(t *testing.T) {
	t.Parallel()
	db := func(loses func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error) effectOn {
		return func(t *testing.T, b bundle, run func() int) dedup.Effect[int] {
			return sqldedup.Effect(func(ctx context.Context, on *sql.DB) (int, error) {
				if n := run(); n > 1 {
					_, err := on.ExecContext(ctx, insert, "k")
					return n, err
				}
				return 1, loses(ctx, t, b, on)
			})
		}
	}
	tx := func(loses func(ctx context.Context, t *testing.T, b bundle, tx *sql.Tx) error) effectOn {
		return func(t *testing.T, b bundle, run func() int) dedup.Effect[int] {
			return sqldedup.Effect(func(ctx context.Context, on *sql.Tx) (int, error) {
				if n := run(); n > 1 {
					_, err := on.ExecContext(ctx, insert, "k")
					return n, err
				}
				return 1, loses(ctx, t, b, on)
			})
		}
	}
	for name, effect := range map[string]effectOn{
		"InATransaction": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			inner, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			b.kill(t, inner)
			_, err = inner.ExecContext(ctx, insert, "k")
			return errors.Join(err, inner.Rollback())
		}),
		"AtCommit": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			inner, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			b.kill(t, inner)
			return inner.Commit()
		}),
		"AtBegin": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			outer, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			b.kill(t, db)
			_, err = db.BeginTx(ctx, nil)
			return errors.Join(err, outer.Rollback())
		}),
		"BeginsAnother": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			inner, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			b.kill(t, inner)
			require.Error(t, inner.Rollback())
			_, err = db.BeginTx(ctx, nil)
			return err
		}),
		"TwoDeep": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			outer, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			inner, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			b.kill(t, inner)
			require.Error(t, inner.Rollback())
			return outer.Rollback()
		}),
		"OuterFirst": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			outer, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			inner, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			b.kill(t, inner)
			_, err = inner.ExecContext(ctx, insert, "k")
			require.Error(t, err)
			return errors.Join(outer.Rollback(), inner.Rollback())
		}),
		"WithRowsOpen": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			inner, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			defer func() { _ = inner.Rollback() }()
			var pid int
			require.NoError(t, inner.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&pid))
			rows, err := db.QueryContext(ctx, `SELECT generate_series(1, 10000000)`)
			require.NoError(t, err)
			_, err = b.pool.Exec(b.ctx, `SELECT pg_terminate_backend($1, 10000)`, pid)
			require.NoError(t, err)
			for rows.Next() {
			}
			return rows.Err()
		}),
		"AndSaysNothing": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			inner, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			b.kill(t, inner)
			_, err = inner.ExecContext(ctx, insert, "k")
			require.Error(t, err)
			return nil
		}),
		"BeforeDoTx": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			inner, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			defer func() { _ = inner.Rollback() }()
			b.kill(t, inner)
			_, err = inner.ExecContext(ctx, insert, "k")
			require.Error(t, err)
			_, err = sqldedup.DoTx(ctx, b.d, inner, call("inner"), func(context.Context) (int, error) { return 0, nil })
			require.ErrorIs(t, err, dedup.ErrRestartTx)
			return err
		}),
		"InDoTx": db(func(ctx context.Context, t *testing.T, b bundle, db *sql.DB) error {
			_, err := sqldedup.DoTx(ctx, b.d, db, call("inner"), func(ctx context.Context) (int, error) {
				inner, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				b.kill(t, inner)
				_, err = inner.ExecContext(ctx, insert, "k")
				return 0, errors.Join(err, inner.Rollback())
			})
			return err
		}),
		"WithADeferredRollback": tx(func(ctx context.Context, t *testing.T, b bundle, tx *sql.Tx) error {
			defer func() { _ = tx.Rollback() }()
			b.kill(t, tx)
			_, err := tx.ExecContext(ctx, insert, "k")
			return err
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			runs := 0
			result, err := dedup.Do(b.ctx, b.d, call("k"), effect(t, b, func() int { runs++; return runs }))
			require.NoError(t, err)
			require.Equal(t, 2, result.Value)
			require.Equal(t, []string{"k"}, b.notes(t))
		})
	}
}

// effectOn makes an effect that counts its runs.
type effectOn func(t *testing.T, b bundle, run func() int) dedup.Effect[int]

// TestDoTxLosesItsConnection gives DoTx a transaction whose session has ended.
func TestDoTxLosesItsConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tx := b.begin(t)
	b.kill(t, tx)
	_, err := tx.ExecContext(b.ctx, insert, "k")
	require.Error(t, err)
	_, err = b.add(tx, "k", nil)
	require.ErrorIs(t, err, dedup.ErrRestartTx)
	require.True(t, dedup.IsRetryable(err))
}

// TestHandleAfterItsContext ends the caller's context in an effect, which then misuses its handle.
// The error is the context's.
func TestHandleAfterItsContext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(ctx context.Context, t *testing.T, db *sql.DB, cancel func()) error{
		"LeavesOneOpen": func(ctx context.Context, t *testing.T, db *sql.DB, cancel func()) error {
			tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			cancel()
			return ctx.Err()
		},
		"AndSaysNothing": func(ctx context.Context, t *testing.T, db *sql.DB, cancel func()) error {
			tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			cancel()
			return nil
		},
		"AndRefuses": func(ctx context.Context, t *testing.T, db *sql.DB, cancel func()) error {
			tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			cancel()
			return dedup.Final(errors.New("declined"))
		},
		"WithAnInnerOneOpen": func(ctx context.Context, t *testing.T, db *sql.DB, cancel func()) error {
			outer, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			require.NoError(t, err)
			_, err = db.BeginTx(ctx, nil)
			require.NoError(t, err)
			cancel()
			return outer.Commit()
		},
		"WithTheOuterOneOpen": func(ctx context.Context, t *testing.T, db *sql.DB, cancel func()) error {
			outer, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			inner, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			require.NoError(t, err)
			cancel()
			require.Error(t, outer.Commit())
			return inner.Commit()
		},
		"WithRowsOpen": func(ctx context.Context, t *testing.T, db *sql.DB, cancel func()) error {
			rows, err := db.QueryContext(ctx, `SELECT generate_series(1, 10000000)`) //nolint:rowserrcheck // they are left open
			require.NoError(t, err)
			require.True(t, rows.Next())
			cancel()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ctx, cancel := context.WithCancel(b.ctx)
			defer cancel()
			_, err := dedup.Do(ctx, b.d, call("k"), sqldedup.Effect(func(ctx context.Context, db *sql.DB) (int, error) {
				return 0, c(ctx, t, db, cancel)
			}))
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, dedup.ErrInvalid)
			require.True(t, dedup.IsRetryable(err))
			// The server may not have noticed yet that a connection is closed.
			require.Contains(t, []dedup.State{dedup.StateNotFound, dedup.StateInFlight}, b.state(t, "k"))
		})
	}
	t.Run("AfterADeferredRollback", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ctx, cancel := context.WithCancel(b.ctx)
		defer cancel()
		_, err := dedup.Do(ctx, b.d, call("k"), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
			defer func() { _ = tx.Rollback() }()
			cancel()
			return 0, ctx.Err()
		}))
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, dedup.ErrInvalid)
	})
}

// TestHandleLeavesNothingBehind leaves transactions and result sets open, for which database/sql
// has goroutines, with a context that never ends. TestMain finds leaked ones.
func TestHandleLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, leave := range map[string]func(ctx context.Context, db *sql.DB) error{
		"Transaction": func(ctx context.Context, db *sql.DB) error { _, err := db.BeginTx(ctx, nil); return err },
		"Rows": func(ctx context.Context, db *sql.DB) error {
			ctx, cancel := context.WithCancel(ctx)
			t.Cleanup(cancel)
			_, err := db.QueryContext(ctx, `SELECT generate_series(1, 100000)`) //nolint:rowserrcheck // they are left open
			return err
		},
	} {
		_, err := dedup.Do(context.Background(), b.d, call(name), sqldedup.Effect(func(ctx context.Context, db *sql.DB) (int, error) {
			return 0, leave(ctx, db)
		}))
		require.Equal(t, name == "Transaction", errors.Is(err, dedup.ErrInvalid))
	}
}

// TestHandleAtOnce makes calls most of which have a context that ends at a random time. Each effect
// makes a call inside its own transaction while a second goroutine uses the handle. Each commit is
// complete, and the race detector finds nothing.
func TestHandleAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const workers, each, whole = 4, 30, 4
	effect := func(key string, within time.Duration) dedup.Effect[int] {
		return sqldedup.Effect(func(ctx context.Context, db *sql.DB) (int, error) {
			var beside sync.WaitGroup
			defer beside.Wait()
			beside.Go(func() {
				for range 3 {
					_, _ = db.ExecContext(ctx, `SELECT 1`)
				}
			})
			inner, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			tx, err := db.BeginTx(inner, nil)
			if err != nil {
				return 0, err
			}
			defer func() { _ = tx.Rollback() }()
			if _, err = sqldedup.DoTx(inner, b.d, tx, call("inner "+key), func(ctx context.Context) (int, error) {
				_, err := tx.ExecContext(ctx, insert, "inner "+key)
				return 0, err
			}); err != nil {
				return 0, err
			}
			if err = tx.Commit(); err != nil {
				return 0, err
			}
			_, err = db.ExecContext(ctx, insert, key)
			return 0, err
		})
	}
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for n := range each {
				key, within, inside := fmt.Sprint(worker, ".", n), rand.N(60*time.Millisecond), rand.N(40*time.Millisecond)
				if n%whole == 0 {
					within, inside = time.Hour, time.Hour
				}
				ctx, cancel := context.WithTimeout(b.ctx, within)
				_, err := dedup.Do(ctx, b.d, call(key), effect(key, inside))
				cancel()
				if err != nil && (n%whole == 0 || errors.Is(err, dedup.ErrInvalid) || errors.Is(err, dedup.ErrBroken)) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var records int
	require.NoError(t, b.pool.QueryRow(b.ctx, `SELECT count(*) FROM tool_dedup`).Scan(&records))
	require.GreaterOrEqual(t, records, 2*workers*each/whole)
	require.Len(t, b.notes(t), records)
}
