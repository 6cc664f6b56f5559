package dedup

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/guard"
)

// BeginFunc is [pgx.BeginFunc] for a function that calls [DoTx]. It calls fn with a transaction
// on the Deduper's pool at READ COMMITTED, and commits if fn returns nil. The transaction is like
// that of [Do]: it has Options.IdleTimeout, and its COMMIT is durable where synchronous_commit is
// off.
//
// If fn returns a refusal ([ErrRefused]) of a DoTx in this transaction, as it is or wrapped,
// BeginFunc commits too and returns fn's error: the refusal's record is in the transaction. Any
// other error rolls back and is returned. So does a refusal of another transaction, or one
// that a savepoint has undone. A panic rolls back and is raised again.
//
// BEGIN is sent when fn first uses tx, and costs no round trip if that is a DoTx of the same
// Deduper. A function that does not use tx sends nothing.
//
// If fn returns [ErrRestartTx] or a transient fault ([IsTransient]), if it returns that its
// connection was lost, or if BEGIN met one of these, BeginFunc rolls back and calls fn again in a
// fresh transaction, after a pause, within Options.Retry. Then the answer is
// [ErrAttemptsExhausted]. So fn may be called more than once. It must not keep tx, and what it
// does outside of tx is done again.
//
// As in an effect, the answer is an [ErrInvalid] if fn ends tx, ignores the error of a statement,
// leaves rows open, or sends nothing for longer than Options.IdleTimeout.
//
// In fn, call DoTx. [Do] and BeginFunc need a second connection, and can wait for ever if other
// calls hold the pool's last ones. A Do with the identity of a DoTx in tx waits for itself. Since
// fn gets no context of its own, nothing can see that.
//
// [ErrOutcomeUnknown] means that the answer to COMMIT was lost. All of the transaction is
// committed or none of it. Call BeginFunc again if every write of fn is the effect of a DoTx with
// the same key: those that are committed are replayed then. A write beside them is made twice,
// so find out first whether it is there: [Deduper.Lookup] of a call in the transaction says whether
// it is committed.
//
// Cancelling ctx stops the pauses, cancels statements that were sent with it, and rolls back. A
// COMMIT that has been sent is finished within Options.CommitTimeout all the same. Inside an
// effect the answer is an [ErrInvalid].
func (d *Deduper) BeginFunc(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	switch {
	case guard.Inside(ctx):
		return errNested
	case fn == nil:
		return missing("fn", "must not be nil")
	}
	for attempt := 1; ; attempt++ {
		again, err := d.beginFunc(ctx, attempt, fn)
		if !again {
			return err
		}
		if ctx.Err() != nil {
			return withContext(ctx, err)
		}
		if attempt >= d.opts.Retry.MaxAttempts {
			return &Error{Answer: ErrAttemptsExhausted, Attempts: attempt, Err: byEffect(err)}
		}
		if sleep(ctx, d.opts.Retry.pause(attempt)) != nil {
			return withContext(ctx, err)
		}
	}
}
