package contract_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// through is the effect as the profile's way runs it.
func (p profile) through(effect dedup.Effect[ticket]) dedup.Effect[ticket] {
	if p.way != viaSQL {
		return effect
	}
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		return sqldedup.Run(ctx, tx, func(ctx context.Context, handed *sql.Tx) (ticket, error) {
			return effect(ctx, sqlTx{Tx: tx, handed: handed})
		})
	}
}

// sqlTx is the transaction of an effect whose statements go through a *sql.Tx.
type sqlTx struct {
	pgx.Tx
	handed *sql.Tx
}

func (t sqlTx) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	result, err := t.handed.ExecContext(ctx, query, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	n, err := result.RowsAffected()
	return pgconn.NewCommandTag(fmt.Sprintf("INSERT 0 %d", n)), err
}

func (t sqlTx) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return t.handed.QueryRowContext(ctx, query, args...)
}

func (t sqlTx) Commit(context.Context) error   { return t.handed.Commit() }
func (t sqlTx) Rollback(context.Context) error { return t.handed.Rollback() }

// beginSQL is begin through pgx's driver for database/sql.
func (f *fixture) beginSQL(t *testing.T, ctx context.Context) pgx.Tx {
	t.Helper()
	db := stdlib.OpenDBFromPool(f.pool)
	t.Cleanup(func() { _ = db.Close() })
	level := map[pgx.TxIsoLevel]sql.IsolationLevel{pgx.ReadCommitted: sql.LevelReadCommitted, pgx.RepeatableRead: sql.LevelRepeatableRead, pgx.Serializable: sql.LevelSerializable}
	tx, err := db.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: level[f.profile.isolation]})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return sqlTx{handed: tx}
}

// doTx is dedup.DoTx in the profile's way. Inside an effect tx may be a pgx.Tx in every profile.
func (f *fixture) doTx(ctx context.Context, d *dedup.Deduper, tx pgx.Tx, c dedup.Call, effect dedup.Effect[ticket]) (dedup.Result[ticket], error) {
	if begun, ok := tx.(sqlTx); ok {
		return sqldedup.DoTx(ctx, d, begun.handed, c, func(ctx context.Context) (ticket, error) { return effect(ctx, begun) })
	}
	return dedup.DoTx(ctx, d, tx, c, effect)
}
