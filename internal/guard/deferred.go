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

// Defer returns an effect on a transaction that has not begun. It begins before the first
// statement on [Effect.Tx]; Conn and LargeObjects begin it at once, with ctx. The effect is no
// call's: no context sets calls inside it apart.
func Defer(ctx context.Context, d Deferred) *Effect {
	e := &Effect{Context: ctx}
	e.tx.root, e.tx.deferred = &e.tx, &deferredTx{d, ctx}
	return e
}

// deferredTx is a Deferred and the context for uses that come without one.
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

// begun reports whether the transaction has begun. It does not wait for a use of e: a DoTx
// begins the transaction with a pipeline of its own.
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

// beginNow is begin for the methods that take no context. What uses an error of it has the
// same error from the next statement.
func (e *guardedTx) beginNow() {
	if !e.begun() {
		_ = e.begin(e.deferred.ctx)
	}
}
