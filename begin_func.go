package dedup

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// BeginFunc is [pgx.BeginFunc] for a function that calls [DoTx]. It calls fn with a transaction on
// the Deduper's pool, and commits if fn returns nil. Like the transaction of [Do] it has
// Options.Isolation and Options.IdleTimeout, and its COMMIT is durable even if synchronous_commit
// is off.
//
// If fn returns a refusal ([ErrRefused]) of a DoTx in this transaction, wrapped or not, BeginFunc
// commits and returns fn's error, because the refusal's record is in the transaction. Any other
// error rolls back and is returned. So does a refusal of another transaction, or one that a
// savepoint has undone. A panic rolls back and is raised again.
//
// BEGIN is sent when fn first uses tx, and costs no round trip if that is a DoTx of the same
// Deduper. A function that does not use tx sends nothing.
//
// BeginFunc rolls back and calls fn again in a fresh transaction after [ErrRestartTx], a transient
// fault ([IsTransient]) or a lost connection. It does so whether fn or BEGIN met the fault. It
// pauses between two calls, and stops after Options.Retry with an [ErrAttemptsExhausted]. So fn may
// be called more than once. It must not keep tx, and its work outside tx is repeated.
//
// As in an effect, the error is an [ErrInvalid] if fn ends tx, ignores the error of a statement,
// leaves rows open, or sends nothing for longer than Options.IdleTimeout.
//
// In fn, call DoTx. [Do] and BeginFunc need a second connection, and can wait forever if other
// calls hold the last connections of the pool. A Do with the identity of a DoTx in tx waits for its
// own transaction. The library cannot detect that, because fn gets no context.
//
// [ErrOutcomeUnknown] means that the reply to COMMIT was lost. The transaction is committed as a
// whole, or not at all. Call BeginFunc again if every write of fn is the effect of a DoTx with the
// same key: committed calls are then replayed. A second run repeats any other write. So first look
// up a call of the transaction with [Deduper.Lookup], which tells whether it is committed.
//
// Cancelling ctx stops the pauses, cancels statements that were sent with it, and rolls back. Once
// COMMIT is sent, BeginFunc waits for the reply, for at most Options.CommitTimeout. Inside an
// effect BeginFunc returns an [ErrInvalid].
func (d *Deduper) BeginFunc(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if err := d.outside(ctx); err != nil {
		return err
	}
	if fn == nil {
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
			return &Error{Kind: ErrAttemptsExhausted, Attempts: attempt, Err: byEffect(err)}
		}
		if sleep(ctx, d.opts.Retry.pause(attempt)) != nil {
			return withContext(ctx, err)
		}
	}
}
