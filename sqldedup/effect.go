package sqldedup

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Handle is a *sql.Tx or a *sql.DB, for database/sql and the ORMs. Every statement runs in the
// effect's transaction.
//
// A *sql.Tx is the transaction. The effect ends it by returning. Commit and Rollback, also
// deferred, are refused with an error that is [dedup.ErrInvalid], and the effect fails, whatever it
// returns.
//
// A *sql.DB is for code that begins transactions. Each is a savepoint, with Commit and Rollback as
// usual. It must end before the transaction around it and before the effect returns. It has the
// effect's isolation level and access mode.
//
// Statements on the *sql.DB itself run inside the innermost open savepoint. If that is rolled back,
// they are undone, and so is a transaction that was committed inside it. If an effect returns no
// error after that, it fails with an error that is [dedup.ErrInvalid].
//
// The Value method of an argument must not use the handle: it would wait for the statement that
// called it.
//
// Both end with the effect. A result set that is still open is closed then. Prepare costs no round
// trip: pgx prepares a statement when it first runs.
type Handle interface{ *sql.Tx | *sql.DB }

// Effect returns an effect that runs fn on its transaction, for [dedup.Do] and [dedup.DoTx].
func Effect[H Handle, R any](fn func(ctx context.Context, handle H) (R, error)) dedup.Effect[R] {
	return func(ctx context.Context, tx pgx.Tx) (R, error) { return Run(ctx, tx, fn) }
}

// Run runs fn on tx and returns its result. tx is the transaction of an effect, or one that its
// beginner ends. If fn misuses its handle, the error is a [dedup.InvalidError], and tx must be
// rolled back.
//
// If ctx ends, only the statements that fn sends with it are cancelled.
func Run[H Handle, R any](ctx context.Context, tx pgx.Tx, fn func(ctx context.Context, handle H) (R, error)) (result R, err error) {
	s := &session{tx: tx}
	db := sql.OpenDB(s)
	defer func() { _ = db.Close() }() // no connection is closed: a session has none
	// database/sql has a goroutine for each transaction or result set of the *sql.DB that the
	// effect leaves open. It ends with this context.
	inner, end := context.WithCancel(ctx)
	defer end()

	var handle H
	switch h := any(&handle).(type) {
	case **sql.DB:
		*h = db
	case **sql.Tx:
		// database/sql rolls a transaction back from a goroutine when its context ends. Here that
		// only frees its resources, after the session has ended. Rollback instead would wait for a
		// result set whose bytes are being read, and for ever if the effect left one open.
		held, free := context.WithCancel(context.WithoutCancel(ctx))
		defer free()
		if *h, err = db.BeginTx(held, &sql.TxOptions{Isolation: effectsOwnTx}); err != nil {
			return result, err
		}
	}
	defer func() { err = s.leave(ctx, err) }()
	return fn(inner, handle)
}
