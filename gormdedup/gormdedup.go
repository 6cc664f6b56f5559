package gormdedup

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// Effect returns an effect that runs fn with gorm on the effect's transaction. tx has the settings
// and conditions of db, and the effect's context.
//
// It is [sqldedup.Effect] with a *sql.Tx: fn ends the transaction by returning, tx.Commit and
// tx.Rollback are refused, and a tx.Transaction is a savepoint.
func Effect[R any](db *gorm.DB, fn func(ctx context.Context, tx *gorm.DB) (R, error)) dedup.Effect[R] {
	return func(ctx context.Context, tx pgx.Tx) (R, error) {
		return sqldedup.Run(ctx, tx, func(ctx context.Context, tx *sql.Tx) (R, error) { return fn(ctx, on(ctx, db, tx)) })
	}
}

// Transaction is [sqldedup.BeginFunc] with gorm: it begins a transaction on the pool of d and calls
// fn, which makes calls in it with [DoTx]. It commits if fn returns nil or a refusal of one of
// these calls, and rolls back after any other error. It runs fn again after [dedup.ErrRestartTx]
// and after a transient error.
//
// tx has the settings and conditions of db, and ctx. gorm does not roll back when ctx ends.
func Transaction(ctx context.Context, d *dedup.Deduper, db *gorm.DB, fn func(tx *gorm.DB) error) error {
	if fn == nil {
		return sqldedup.BeginFunc[*sql.Tx](ctx, d, nil)
	}
	return sqldedup.BeginFunc(ctx, d, func(tx *sql.Tx) error { return fn(on(ctx, db, tx)) })
}

// DoTx is [sqldedup.DoTx] in a transaction of gorm: of [Transaction], of an [Effect], or one that
// gorm itself began. The effect's tx is the same transaction with the effect's context.
//
// Begin a transaction of gorm with db.WithContext(context.WithoutCancel(ctx)): one whose context
// can end is a [dedup.InvalidError]. On a database that is not of [sqldedup.OpenDB], DoTx knows
// only the context of the last WithContext, and judges that; do not call tx.WithContext there
// before DoTx. Commit it after a nil error and after [dedup.ErrRefused], and roll it back after any
// other. After [dedup.ErrRestartTx] run the whole transaction again. gorm may prepare its
// statements.
func DoTx[R any](ctx context.Context, d *dedup.Deduper, tx *gorm.DB, call dedup.Call, effect func(ctx context.Context, tx *gorm.DB) (R, error)) (dedup.Result[R], error) {
	if effect == nil {
		return sqldedup.DoTx[R](ctx, d, below(tx), call, nil)
	}
	return sqldedup.DoTx(ctx, d, below(tx), call, func(ctx context.Context) (R, error) { return effect(ctx, tx.WithContext(ctx)) })
}

// on returns db on a transaction that it does not end. WithContext gives it a new Statement,
// because db's Statement is shared by all its users.
func on(ctx context.Context, db *gorm.DB, tx *sql.Tx) *gorm.DB {
	session := db.WithContext(ctx)
	session.Statement.ConnPool = tx
	return session
}

// below returns the connection that tx sends its statements on.
func below(tx *gorm.DB) sqldedup.Tx {
	if tx == nil {
		return nil
	}
	if prepared, ok := tx.Statement.ConnPool.(*gorm.PreparedStmtTX); ok {
		return begun{prepared.Tx, tx.Statement.Context}
	}
	return begun{tx.Statement.ConnPool, tx.Statement.Context}
}

// begun is a transaction with the context of its last WithContext, most likely the one with which
// gorm began it.
type begun struct {
	gorm.ConnPool
	with context.Context
}

// BegunWith is called by [sqldedup.DoTx].
func (b begun) BegunWith() context.Context { return b.with }
