package sqldedup_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

func TestBeginFunc(t *testing.T) {
	t.Parallel()
	own := errors.New("the caller's own")

	for name, c := range map[string]struct {
		// ends is the end of fn after its call, in its nth run.
		ends  func(tx *sql.Tx, run int) error
		runs  int
		want  error
		notes []string
	}{
		"Commits":   {ends: func(*sql.Tx, int) error { return nil }, runs: 1, notes: []string{"k"}},
		"RollsBack": {ends: func(*sql.Tx, int) error { return own }, runs: 1, want: own},
		"Restarts": {runs: 3, notes: []string{"k"}, ends: func(_ *sql.Tx, run int) error {
			if run < 3 {
				return dedup.ErrRestartTx
			}
			return nil
		}},
		"MeetsATransientFault": {runs: 2, notes: []string{"k"}, ends: func(tx *sql.Tx, run int) error {
			if run > 1 {
				return nil
			}
			_, err := tx.Exec(`DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$`)
			var failed *pgconn.PgError
			require.ErrorAs(t, err, &failed)
			return err
		}},
		"EndsItByItself": {ends: func(tx *sql.Tx, _ int) error { return tx.Commit() }, runs: 1, want: dedup.ErrInvalid},
		"SaysNothing":    {ends: func(tx *sql.Tx, _ int) error { _ = tx.Commit(); return nil }, runs: 1, want: dedup.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			runs := 0
			err := sqldedup.BeginFunc(b.ctx, b.d, func(tx *sql.Tx) error {
				runs++
				if _, err := b.add(tx, "k", nil); err != nil {
					return err
				}
				return c.ends(tx, runs)
			})
			require.Equal(t, c.runs, runs)
			if c.want == nil {
				require.NoError(t, err)
				require.Equal(t, c.notes, b.notes(t))
				return
			}
			require.ErrorIs(t, err, c.want)
			require.Empty(t, b.notes(t))
			require.Equal(t, dedup.StateNotFound, b.state(t, "k"))
		})
	}

	t.Run("CommitsARefusal", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		err := sqldedup.BeginFunc(b.ctx, b.d, func(tx *sql.Tx) error {
			_, err := tx.Exec(insert, "beside")
			require.NoError(t, err)
			_, err = b.add(tx, "k", func(context.Context) error { return dedup.Final(own) })
			return err
		})
		require.ErrorIs(t, err, dedup.ErrRefused)
		require.Equal(t, []string{"beside"}, b.notes(t))
		require.Equal(t, dedup.StateRefused, b.state(t, "k"))
	})

	t.Run("WithADatabase", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.NoError(t, sqldedup.BeginFunc(b.ctx, b.d, func(db *sql.DB) error {
			_, err := sqldedup.DoTx(b.ctx, b.d, db, call("k"), func(ctx context.Context) (int, error) {
				_, err := db.ExecContext(ctx, insert, "k")
				return 0, err
			})
			return err
		}))
		require.Equal(t, []string{"k"}, b.notes(t))
	})

	t.Run("WithoutAFunction", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.ErrorIs(t, sqldedup.BeginFunc[*sql.Tx](b.ctx, b.d, nil), dedup.ErrInvalid)
	})
}

// TestUndoneBesideARefusal: a call whose statements were undone has no record, although BeginFunc
// commits the refusal of the next call. Without a call, the refusal is not committed either.
func TestUndoneBesideARefusal(t *testing.T) {
	t.Parallel()
	undo := func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := db.ExecContext(ctx, `INSERT INTO notes (text) VALUES ('a')`); err != nil {
			return err
		}
		return tx.Rollback()
	}
	for name, first := range map[string]func(b bundle, db *sql.DB) error{
		"InACall": func(b bundle, db *sql.DB) error {
			_, err := sqldedup.DoTx(b.ctx, b.d, db, call("a"), func(ctx context.Context) (string, error) { return "wrote a", undo(ctx, db) })
			require.ErrorIs(t, err, dedup.ErrInvalid)
			return nil
		},
		"BesideCalls": func(b bundle, db *sql.DB) error { return undo(b.ctx, db) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			err := sqldedup.BeginFunc(b.ctx, b.d, func(db *sql.DB) error {
				if err := first(b, db); err != nil {
					return err
				}
				_, err := sqldedup.DoTx(b.ctx, b.d, db, call("b"), func(context.Context) (string, error) {
					return "", dedup.Final(errors.New("declined"))
				})
				return err
			})
			if name == "InACall" { // the call's savepoint is rolled back, and the refusal committed
				require.ErrorIs(t, err, dedup.ErrRefused)
				require.Equal(t, dedup.StateRefused, b.state(t, "b"))
			} else {
				require.ErrorIs(t, err, dedup.ErrInvalid)
				require.Equal(t, dedup.StateNotFound, b.state(t, "b"))
			}
			require.Equal(t, dedup.StateNotFound, b.state(t, "a"))
			require.Empty(t, b.notes(t))
		})
	}
}
