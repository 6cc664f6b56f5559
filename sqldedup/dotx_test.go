package sqldedup_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/sqldedup"
)

// begin begins a transaction.
func (b bundle) begin(t *testing.T) *sql.Tx {
	t.Helper()
	db := stdlib.OpenDBFromPool(b.pool)
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(context.WithoutCancel(b.ctx), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// add is a call of DoTx whose effect writes through tx and then calls then.
func (b bundle) add(tx *sql.Tx, key string, then func(ctx context.Context) error) (dedup.Result[string], error) {
	return sqldedup.DoTx(b.ctx, b.d, tx, call(key), func(ctx context.Context) (string, error) {
		if _, err := tx.ExecContext(ctx, insert, key); err != nil || then == nil {
			return key, err
		}
		return key, then(ctx)
	})
}

func TestDoTx(t *testing.T) {
	t.Parallel()
	own := errors.New("the effect's own")

	t.Run("CommitsWithTheCaller", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, replayed := range []bool{false, true} {
			tx := b.begin(t)
			result, err := b.add(tx, "k", nil)
			require.NoError(t, err)
			require.Equal(t, replayed, result.Replayed)
			require.Equal(t, "k", result.Value)
			require.NoError(t, tx.Commit())
		}
		require.Equal(t, []string{"k"}, b.notes(t))
	})

	t.Run("IsUndoneWithTheCaller", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tx := b.begin(t)
		_, err := b.add(tx, "k", nil)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		require.Empty(t, b.notes(t))
		require.Equal(t, dedup.StateNotFound, b.state(t, "k"))
	})

	t.Run("LeavesTheTransactionUsable", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tx := b.begin(t)
		_, err := b.add(tx, "fails", func(ctx context.Context) error {
			_, err := tx.ExecContext(ctx, `SELECT 1/0`)
			return err
		})
		require.ErrorContains(t, err, "SQLSTATE 22012")
		_, err = b.add(tx, "refused", func(context.Context) error { return dedup.Final(own) })
		require.ErrorIs(t, err, dedup.ErrRefused)
		_, err = b.add(tx, "works", nil)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.Equal(t, []string{"works"}, b.notes(t))
		require.Equal(t, dedup.StateRefused, b.state(t, "refused"))
		require.Equal(t, dedup.StateNotFound, b.state(t, "fails"))
	})

	for name, end := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"Commit":     func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		"Rollback":   func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		"CommitText": func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, "COMMIT"); return err },
		"CommitAndBegin": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "COMMIT; BEGIN")
			require.NoError(t, err)
			return own
		},
	} {
		t.Run("FindsOut"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			tx := b.begin(t)
			_, err := b.add(tx, "k", func(ctx context.Context) error { return end(ctx, tx) })
			require.ErrorIs(t, err, dedup.ErrBroken)
			_ = tx.Rollback()
			require.Equal(t, dedup.StateBroken, b.state(t, "k"))
		})
	}

	t.Run("LeavesAnothersTransaction", func(t *testing.T) { // which has begun on the connection
		t.Parallel()
		b := setup(t)
		tx := b.begin(t)
		var stranger pgx.Tx
		_, err := b.add(tx, "k", func(ctx context.Context) (err error) {
			require.NoError(t, tx.Commit())
			stranger, err = b.pool.Begin(ctx)
			return err
		})
		require.ErrorIs(t, err, dedup.ErrBroken)
		require.Equal(t, byte('T'), stranger.Conn().PgConn().TxStatus())
		require.NoError(t, stranger.Rollback(b.ctx))
		require.Equal(t, dedup.StateBroken, b.state(t, "k"))
	})

	for name, misuse := range map[string]func(ctx context.Context, tx *sql.Tx){
		"SwallowsAFailure": func(ctx context.Context, tx *sql.Tx) {
			_, err := tx.ExecContext(ctx, `SELECT 1/0`)
			require.Error(t, err)
		},
		"LeavesRowsOpen": func(ctx context.Context, tx *sql.Tx) {
			rows, err := tx.QueryContext(ctx, `SELECT generate_series(1, 100000)`) //nolint:rowserrcheck // it is left open
			require.NoError(t, err)
			require.True(t, rows.Next())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			tx := b.begin(t)
			_, err := b.add(tx, "k", func(ctx context.Context) error { misuse(ctx, tx); return nil })
			require.ErrorIs(t, err, dedup.ErrInvalid)
			_ = tx.Rollback()
			require.Empty(t, b.notes(t))
		})
	}

	t.Run("InsideItself", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tx := b.begin(t)
		result, err := b.add(tx, "outer", func(ctx context.Context) error {
			_, err := sqldedup.DoTx(ctx, b.d, tx, call("inner"), func(ctx context.Context) (int, error) {
				_, err := tx.ExecContext(ctx, insert, "inner")
				return 0, errors.Join(err, own)
			})
			require.ErrorIs(t, err, own)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, "outer", result.Value)
		require.NoError(t, tx.Commit())
		require.Equal(t, []string{"outer"}, b.notes(t))
	})

	t.Run("OnTheHandleOfAnEffect", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := dedup.Do(b.ctx, b.d, call("outer"), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
			result, err := sqldedup.DoTx(ctx, b.d, tx, call("inner"), func(ctx context.Context) (int, error) {
				_, err := tx.ExecContext(ctx, insert, "inner")
				return 7, err
			})
			return result.Value, err
		}))
		require.NoError(t, err)
		require.Equal(t, []string{"inner"}, b.notes(t))
		require.Equal(t, dedup.StateDone, b.state(t, "inner"))
	})
}

// TestDoTxRefuses gives DoTx other values than an open transaction of pgx's driver.
func TestDoTxRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	db := stdlib.OpenDBFromPool(b.pool)
	t.Cleanup(func() { _ = db.Close() })
	ended, aborted := b.begin(t), b.begin(t)
	require.NoError(t, ended.Rollback())
	_, err := aborted.ExecContext(b.ctx, `SELECT 1/0`)
	require.Error(t, err)
	foreign := sql.OpenDB(foreignDriver{})
	t.Cleanup(func() { _ = foreign.Close() })
	conn, err := db.Conn(b.ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })

	shared := sqldedup.OpenDB(pgtest.New(t).Pool(t)) // the other pool's connections are in use
	t.Cleanup(func() { _ = shared.Close() })
	ending, err := shared.BeginTx(b.ctx, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ending.Rollback() })

	for name, c := range map[string]struct {
		tx   sqldedup.Tx
		says string
	}{
		"Database":   {db, "begin one and pass it"},
		"Connection": {conn, "begin one and pass it"},
		"Ended":      {ended, "has ended"},
		"Aborted":    {aborted, "is aborted"},
		"Ending":     {ending, "context.WithoutCancel"},
		"Foreign":    {foreign, "sqldedup.OpenDB"},
		"Formatting": {formatting{b.begin(t)}, "the field Tx"},
		"Nil":        {nil, "is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			_, err := sqldedup.DoTx(b.ctx, b.d, c.tx, call(name), func(context.Context) (int, error) {
				ran = true
				return 0, nil
			})
			var bad *dedup.InvalidError
			require.ErrorAs(t, err, &bad)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, "tx", bad.Field)
			require.False(t, ran)
		})
	}
}

// formatting is a transaction that writes its arguments into the text, as bun's does.
type formatting struct{ *sql.Tx }

func (f formatting) ExecContext(ctx context.Context, query string, _ ...any) (sql.Result, error) {
	return f.Tx.ExecContext(ctx, query)
}

// foreignDriver is another driver.
type foreignDriver struct{}

func (d foreignDriver) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (d foreignDriver) Driver() driver.Driver                        { return d }
func (d foreignDriver) Open(string) (driver.Conn, error)             { return d, nil }
func (d foreignDriver) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("not used") }
func (d foreignDriver) Close() error                                 { return nil }
func (d foreignDriver) Begin() (driver.Tx, error)                    { return nil, errors.New("not used") }

// TestPool keeps a pool of one connection usable.
func TestPool(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	_, err := pool.Exec(t.Context(), `CREATE TABLE notes (text text)`)
	require.NoError(t, err)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	b := bundle{ctx: t.Context(), pool: pool, d: d}
	for _, key := range []string{"a", "b"} {
		tx := b.begin(t)
		_, err := b.add(tx, key, nil)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		_, err = dedup.Do(b.ctx, d, call(key+"2"), sqldedup.Effect(func(ctx context.Context, db *sql.DB) (int, error) {
			inner, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = db.ExecContext(ctx, insert, key) // outside a savepoint
			require.NoError(t, err)
			return 0, inner.Commit()
		}))
		require.NoError(t, err)
	}
}
