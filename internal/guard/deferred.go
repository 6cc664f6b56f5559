package guard

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Deferred is a transaction that begins when it is first used. BEGIN can then travel with the
// statement that comes first.
type Deferred interface {
	// Conn returns the connection of the transaction.
	Conn() *pgx.Conn
	// Tx returns the transaction, or nil if it has not begun.
	Tx() pgx.Tx
	// Begin begins the transaction if it has not begun. If that has failed once, it returns the
	// same error again and sends nothing.
	Begin(ctx context.Context) error
}

// Defer returns an effect on a transaction that begins before the first statement on [Effect.Tx].
// Conn and LargeObjects begin it at once, with ctx. The effect belongs to no call, so calls in its
// context are not treated as nested.
func Defer(ctx context.Context, d Deferred) *Effect {
	e := &Effect{Context: ctx}
	e.tx.root, e.tx.deferred = &e.tx, &deferredTx{d, ctx}
	return e
}

// deferredTx is a Deferred with the context for methods that take none.
type deferredTx struct {
	Deferred
	ctx context.Context
}

// DeferredOf returns the transaction below tx if it has not begun and tx is still open, else nil.
func DeferredOf(tx pgx.Tx) Deferred {
	e, ok := tx.(*guardedTx)
	if !ok || e.begun() || e.closed.Load() {
		return nil
	}
	return e.deferred.Deferred
}

// begun reports whether the transaction has begun. A DoTx begins it in its own pipeline, without a
// method of e.
func (e *guardedTx) begun() bool {
	if e.tx == nil {
		e.tx = e.deferred.Tx()
	}
	return e.tx != nil
}

// begin begins the transaction if it was deferred.
func (e *guardedTx) begin(ctx context.Context) error {
	if e.begun() {
		return nil
	}
	err := e.deferred.Begin(ctx)
	e.begun()
	return err
}

// beginNow is begin for the methods that take no context. If it fails, the next statement returns
// the same error.
func (e *guardedTx) beginNow() {
	if !e.begun() {
		_ = e.begin(e.deferred.ctx)
	}
}
