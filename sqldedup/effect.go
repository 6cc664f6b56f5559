package sqldedup

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Handle is what database/sql and the ORMs work on. Either runs every statement in the one
// transaction of the effect.
//
// A *sql.Tx is the transaction. Its Commit and Rollback are refused with an error that is
// [dedup.ErrInvalid], and so the effect fails, whatever it returns: an effect ends its
// transaction by returning. That includes defer tx.Rollback().
//
// A *sql.DB is for code that begins transactions by itself. A transaction that is begun on it is
// a savepoint, with Commit and Rollback as usual; each must be ended before the one around it,
// and before the effect returns. Its isolation level and access mode are those of the effect.
// The statements of the *sql.DB itself run inside the innermost savepoint. Where that is rolled
// back, they are undone with it, and so is a transaction that was committed inside it: an effect
// that returns no error after that fails with an error that is [dedup.ErrInvalid].
//
// The Value method of an argument must not use the handle: it runs while the statement holds the
// transaction, and would wait for itself.
//
// Both end with the effect. As elsewhere in database/sql, a result set that is still open is
// closed then. Prepare costs no round trip: pgx prepares a statement when it is first run.
type Handle interface{ *sql.Tx | *sql.DB }

// Effect returns an effect that runs fn on its transaction, for [dedup.Do] and [dedup.DoTx].
func Effect[H Handle, R any](fn func(ctx context.Context, handle H) (R, error)) dedup.Effect[R] {
	return func(ctx context.Context, tx pgx.Tx) (R, error) { return Run(ctx, tx, fn) }
}

// Run runs fn on tx, which is the transaction that an effect has got, or another one that its
// beginner ends, and returns what fn returns. Where fn has misused its handle, the error is a
// [dedup.InvalidError], and tx is to be rolled back.
//
// The end of ctx cancels no more than the statements that fn sends with it.
func Run[H Handle, R any](ctx context.Context, tx pgx.Tx, fn func(ctx context.Context, handle H) (R, error)) (result R, err error) {
	s := &session{tx: tx}
	db := sql.OpenDB(s)
	defer func() { _ = db.Close() }() // closes connections, of which a session has none
	// For a transaction or a result set of the *sql.DB that the effect leaves open, database/sql
	// has a goroutine until its context ends: here that is once the session is left.
	inner, end := context.WithCancel(ctx)
	defer end()

	var handle H
	switch h := any(&handle).(type) {
	case **sql.DB:
		*h = db
	case **sql.Tx:
		// database/sql rolls a transaction back from a goroutine when its context ends. The
		// transaction is not its to end: here that frees what database/sql holds, once the session
		// is left. Rollback would wait for a result set whose bytes somebody reads, and for ever
		// where it was left open.
		held, free := context.WithCancel(context.WithoutCancel(ctx))
		defer free()
		if *h, err = db.BeginTx(held, &sql.TxOptions{Isolation: handed}); err != nil {
			return result, err
		}
	}
	defer func() { err = s.leave(ctx, err) }()
	return fn(inner, handle)
}
