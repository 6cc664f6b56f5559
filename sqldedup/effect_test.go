package sqldedup_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

const insert = `INSERT INTO notes (text) VALUES ($1)`

// TestHandedTx runs typical code on a *sql.Tx. want is the error by errors.Is, nil if the effect is
// recorded.
func TestHandedTx(t *testing.T) {
	t.Parallel()
	own := errors.New("the effect's own")

	for name, c := range map[string]struct {
		effect func(ctx context.Context, tx *sql.Tx) error
		want   error
		says   string
	}{
		"Writes": {effect: func(ctx context.Context, tx *sql.Tx) error { return nil }},
		"Fails":  {effect: func(ctx context.Context, tx *sql.Tx) error { return own }, want: own},
		"Refuses": {
			effect: func(ctx context.Context, tx *sql.Tx) error { return dedup.Final(own) },
			want:   dedup.ErrRefused,
		},
		"Commits": {
			effect: func(ctx context.Context, tx *sql.Tx) error { return tx.Commit() },
			want:   dedup.ErrInvalid, says: "return nil to commit",
		},
		"CommitsAndSaysNothing": {
			effect: func(ctx context.Context, tx *sql.Tx) error { _ = tx.Commit(); return nil },
			want:   dedup.ErrInvalid, says: "return nil to commit",
		},
		"CommitsAndRefuses": {
			effect: func(ctx context.Context, tx *sql.Tx) error { _ = tx.Commit(); return dedup.Final(own) },
			want:   dedup.ErrInvalid,
		},
		"DefersRollback": {
			effect: func(ctx context.Context, tx *sql.Tx) error {
				defer func() { _ = tx.Rollback() }()
				return nil
			},
			want: dedup.ErrInvalid, says: "an error to roll back",
		},
		"GoesOnAfterCommit": {
			effect: func(ctx context.Context, tx *sql.Tx) error {
				_ = tx.Commit()
				_, err := tx.ExecContext(ctx, insert, "after")
				return err
			},
			want: dedup.ErrInvalid, says: "transaction has already been committed",
		},
		"CommitsByText": {
			effect: func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, "COMMIT"); return err },
			want:   dedup.ErrInvalid,
		},
		"CommitsByPreparedText": {
			effect: func(ctx context.Context, tx *sql.Tx) error {
				prepared, err := tx.PrepareContext(ctx, "COMMIT")
				if err == nil {
					_, err = prepared.ExecContext(ctx)
				}
				return err
			},
			want: dedup.ErrInvalid,
		},
		"SwallowsAFailure": {
			effect: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `SELECT 1/0`)
				require.ErrorContains(t, err, "SQLSTATE 22012")
				return nil
			},
			want: dedup.ErrInvalid, says: "ignored a failed statement",
		},
		"SwallowsAFailureInItsRows": {
			effect: func(ctx context.Context, tx *sql.Tx) error {
				rows, err := tx.QueryContext(ctx, `SELECT 1 / (5000 - n) FROM generate_series(1, 10000) AS n`) //nolint:rowserrcheck // Close has the error
				require.NoError(t, err)
				require.True(t, rows.Next())
				require.ErrorContains(t, rows.Close(), "SQLSTATE 22012")
				return nil
			},
			want: dedup.ErrInvalid, says: "ignored a failed statement",
		},
		"RollsBackToASavepoint": {
			effect: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `SAVEPOINT mine`)
				require.NoError(t, err)
				_, err = tx.ExecContext(ctx, `SELECT 1/0`)
				require.Error(t, err)
				_, err = tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT mine`)
				return err
			},
		},
		"LeavesRowsOpen": {
			effect: func(ctx context.Context, tx *sql.Tx) error {
				rows, err := tx.QueryContext(ctx, `SELECT generate_series(1, 100000)`) //nolint:rowserrcheck // it is left open
				require.NoError(t, err)
				require.True(t, rows.Next())
				return nil
			},
		},
		"PreparesAndLeavesItOpen": {
			effect: func(ctx context.Context, tx *sql.Tx) error {
				prepared, err := tx.PrepareContext(ctx, `SELECT length($1)`)
				require.NoError(t, err)
				for _, text := range []string{"a", "ab"} {
					var n int
					require.NoError(t, prepared.QueryRowContext(ctx, text).Scan(&n))
					require.Len(t, text, n)
				}
				_, err = prepared.ExecContext(ctx, "abc")
				return err
			},
		},
		"Panics": {effect: func(ctx context.Context, tx *sql.Tx) error { panic("the effect's own") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var kept *sql.Tx
			effect := sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
				kept = tx
				affected, err := tx.ExecContext(ctx, insert, name)
				require.NoError(t, err)
				n, err := affected.RowsAffected()
				require.NoError(t, err)
				return int(n), c.effect(ctx, tx)
			})
			do := func() (result dedup.Result[int], err error) {
				defer func() {
					if recover() != nil {
						err, c.want = own, own
					}
				}()
				return dedup.Do(b.ctx, b.d, call("k"), effect)
			}

			result, err := do()
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, c.says)
				require.NotErrorIs(t, err, dedup.ErrBroken)
				if c.want == dedup.ErrInvalid {
					require.ErrorContains(t, err, `dedup: tool "`+call("k").Tool+`": `)
				}
				require.Empty(t, b.notes(t))
				require.Equal(t, errors.Is(c.want, dedup.ErrRefused), b.state(t, "k") != dedup.StateNotFound)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1, result.Value)
			again, err := do()
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, []string{name}, b.notes(t))
			_, err = kept.ExecContext(b.ctx, insert, "later")
			require.True(t, errors.Is(err, sql.ErrTxDone) || errors.Is(err, dedup.ErrInvalid), err)
			_ = kept.Rollback()
			require.Equal(t, []string{name}, b.notes(t))
		})
	}
}

// TestHandleLeavesBytesOpen leaves a result set open after reading its bytes in place. database/sql
// does not close it, and the effect ends all the same.
func TestHandleLeavesBytesOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := dedup.Do(b.ctx, b.d, call("k"), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
		rows, err := tx.QueryContext(ctx, `INSERT INTO notes (text) SELECT generate_series(1, 10)::text RETURNING text`) //nolint:rowserrcheck // it is left open
		require.NoError(t, err)
		t.Cleanup(func() { _ = rows.Close() })
		require.True(t, rows.Next())
		return 0, rows.Scan(new(sql.RawBytes))
	}))
	require.NoError(t, err)
	require.Len(t, b.notes(t), 10)
}

// TestHandedDB runs code that begins transactions on a *sql.DB. They are savepoints.
func TestHandedDB(t *testing.T) {
	t.Parallel()

	add := func(ctx context.Context, t *testing.T, to interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
	}, text string) {
		t.Helper()
		_, err := to.ExecContext(ctx, insert, text)
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		effect func(ctx context.Context, t *testing.T, db *sql.DB) error
		notes  []string
		says   string // part of an ErrInvalid's text
	}{
		"CommitsAndRollsBack": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				for _, text := range []string{"kept", "undone"} {
					tx, err := db.BeginTx(ctx, nil)
					require.NoError(t, err)
					add(ctx, t, tx, text)
					if text == "kept" {
						require.NoError(t, tx.Commit())
					}
					_ = tx.Rollback()
				}
				return nil
			},
			notes: []string{"first", "kept"},
		},
		"RollsBackAFailure": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				_, err = tx.ExecContext(ctx, insert, "first")
				var failed *pgconn.PgError
				require.ErrorAs(t, err, &failed)
				require.Equal(t, "23505", failed.Code)
				require.NoError(t, tx.Rollback())
				add(ctx, t, db, "other")
				return nil
			},
			notes: []string{"first", "other"},
		},
		"Nests": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				outer, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				add(ctx, t, outer, "outer")
				inner, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				add(ctx, t, inner, "inner")
				require.NoError(t, inner.Rollback())
				return outer.Commit()
			},
			notes: []string{"first", "outer"},
		},
		"EndsTheOuterFirst": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				outer, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				inner, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				require.ErrorIs(t, outer.Commit(), dedup.ErrInvalid)
				return inner.Commit()
			},
			says: "before one that was begun inside it",
		},
		"LeavesOneOpen": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
				require.NoError(t, err)
				add(ctx, t, tx, "lost")
				t.Cleanup(func() { require.ErrorIs(t, tx.Commit(), dedup.ErrInvalid) })
				return nil
			},
			says: "before it ended a transaction",
		},
		"AsksForAnotherLevel": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				_, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
				return err
			},
			says: "isolation level",
		},
		"EndsTheContextOfOne": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				inner, cancel := context.WithCancel(ctx)
				tx, err := db.BeginTx(inner, nil)
				require.NoError(t, err)
				add(ctx, t, tx, "undone")
				cancel() // database/sql rolls back from a goroutine
				add(ctx, t, db, "after")
				require.Error(t, tx.Commit())
				return nil
			},
			notes: []string{"first", "after"},
		},
		"EndsTheContextOfTheLast": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				inner, cancel := context.WithCancel(ctx)
				defer cancel()
				tx, err := db.BeginTx(inner, nil)
				require.NoError(t, err)
				add(ctx, t, tx, "undone")
				return nil
			},
			notes: []string{"first"},
		},
		"RollsBackWhatRanBeside": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				add(ctx, t, db, "beside")
				return tx.Rollback()
			},
			says: "and undid them",
		},
		"RollsBackWhatWasCommittedInside": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				outer, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				inner, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				add(ctx, t, inner, "committed")
				require.NoError(t, inner.Commit())
				return outer.Rollback()
			},
			says: "and undid them",
		},
		"RollsBackWhatTheOuterWrote": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				outer, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				inner, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				add(ctx, t, outer, "outer")
				require.NoError(t, inner.Rollback())
				return outer.Commit()
			},
			says: "and undid them",
		},
		"CommitsWhatRanBeside": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				add(ctx, t, db, "beside")
				return tx.Commit()
			},
			notes: []string{"first", "beside"},
		},
		"HoldsAConnection": {
			effect: func(ctx context.Context, t *testing.T, db *sql.DB) error {
				conn, err := db.Conn(ctx)
				require.NoError(t, err)
				add(ctx, t, conn, "conn")
				require.NoError(t, db.PingContext(ctx))
				return nil
			},
			notes: []string{"first", "conn"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			result, err := dedup.Do(b.ctx, b.d, call("k"), sqldedup.Effect(func(ctx context.Context, db *sql.DB) (string, error) {
				add(ctx, t, db, "first")
				return "done", c.effect(ctx, t, db)
			}))
			if c.says != "" {
				require.ErrorIs(t, err, dedup.ErrInvalid)
				require.ErrorContains(t, err, c.says)
				require.Empty(t, b.notes(t))
				require.Equal(t, dedup.StateNotFound, b.state(t, "k"))
				return
			}
			require.NoError(t, err)
			require.Equal(t, "done", result.Value)
			require.Equal(t, c.notes, b.notes(t))
		})
	}
}

// TestHandleInARefusal combines a misuse with an error that would be recorded.
func TestHandleInARefusal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := dedup.Do(b.ctx, b.d, call("k"), sqldedup.Effect(func(ctx context.Context, db *sql.DB) (int, error) {
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		return 0, dedup.Final(errors.New("declined"))
	}))
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.NotErrorIs(t, err, dedup.ErrRefused)
	require.ErrorContains(t, err, "declined")
	require.Equal(t, dedup.StateNotFound, b.state(t, "k"))
}

// TestHandleTrips counts the statements that a handle adds: none.
func TestHandleTrips(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var sent []string
	_, err := dedup.Do(b.ctx, b.d, call("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
		watched := watchedTx{tx, &sent}
		return sqldedup.Run(ctx, watched, func(ctx context.Context, tx *sql.Tx) (int, error) {
			prepared, err := tx.PrepareContext(ctx, insert)
			require.NoError(t, err)
			_, err = prepared.ExecContext(ctx, "one")
			return 1, err
		})
	})
	require.NoError(t, err)
	require.Equal(t, []string{insert}, sent)
	require.Equal(t, []string{"one"}, b.notes(t))
}

// watchedTx records the statements that are sent.
type watchedTx struct {
	pgx.Tx
	sent *[]string
}

func (w watchedTx) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	*w.sent = append(*w.sent, query)
	return w.Tx.Exec(ctx, query, args...)
}

func (w watchedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	*w.sent = append(*w.sent, "begin")
	return w.Tx.Begin(ctx)
}

func (w watchedTx) Prepare(ctx context.Context, name, query string) (*pgconn.StatementDescription, error) {
	*w.sent = append(*w.sent, "prepare")
	return w.Tx.Prepare(ctx, name, query)
}

// TestHandleAfterADeadline ends the caller's context at every statement of an effect.
func TestHandleAfterADeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const statements = 10
	for at := range statements {
		ctx, cancel := context.WithCancel(b.ctx)
		_, err := dedup.Do(ctx, b.d, call("k"), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
			for n := range statements {
				rows, err := tx.QueryContext(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, strings.Repeat("x", n))
				if err != nil {
					return 0, err
				}
				if n == at {
					cancel() // while the rows are open: database/sql closes them from a goroutine
				}
				for rows.Next() {
				}
				if err := errors.Join(rows.Err(), rows.Close()); err != nil {
					return 0, err
				}
			}
			return 0, nil
		}))
		require.ErrorIs(t, err, context.Canceled)
		cancel()
	}
	require.Empty(t, b.notes(t))
	_, err := dedup.Do(b.ctx, b.d, call("k"), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := tx.ExecContext(ctx, insert, "now")
		return 1, err
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"now"}, b.notes(t))
}
