package dedup

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Effect runs a tool's writes on tx.
//
// It may run more than once for one call; all runs but one are rolled back. So every write must go
// through tx. The effect must not keep tx, or anything it got from tx, such as a Conn or LargeObjects,
// after it has returned: these act in another call's transaction then. It ends the transaction by
// returning: nil commits; an error rolls back and is returned to the caller.
//
// An error that is, or wraps, the answer of another call, such as the ErrRefused of a
// DoTx inside the effect, is an error like any other: it is rolled back, and recorded only with Call.StoreErrors.
// [errors.Is] and [errors.As] do not find the other call's answer in what the caller gets,
// so that ErrRefused, ErrKeyReused and the others always speak of the caller's own call;
// ErrInvalid they do find. [IsRetryable] looks at the other call's answer too. Wrap it
// in [Final] to refuse with it.
type Effect[R any] func(ctx context.Context, tx pgx.Tx) (R, error)

// Do runs effect once for call's identity, in a transaction that it opens and
// ends, and answers every call of that identity, first, later and concurrent,
// with the one recorded result.
//
// A twin in flight is waited for without holding a connection, for at most
// MaxWait and the context's life. Transient faults and COMMITs whose answer was
// lost are retried in fresh transactions within Options.Retry. Cancelling ctx
// stops waiting and retrying and cancels the effect's statements; a COMMIT that
// has been sent is finished within Options.CommitTimeout all the same.
//
// A panic of the effect is raised again after the rollback. The errors are
// listed in the package documentation.
//
// A Do inside an effect is refused with [ErrInvalid] if it gets the effect's context. With another
// context the library cannot see the nesting: a call of the same identity waits for itself for as long
// as that context and MaxWait allow.
func Do[R any](ctx context.Context, d *Deduper, call Call, effect Effect[R]) (result Result[R], err error) {
	ctx, c := startCall(ctx, d, "Do", &call)
	defer c.span.abandon()
	if err = c.check(ctx, d, &call); err == nil && effect == nil {
		err = errNoEffect
	}
	if err == nil {
		var value R
		c.effect = recordedEffect(d, effect, &value)
		err = c.do(ctx)
		result, err = answer(c, value, err)
	}
	return result, c.end(err)
}

// recordedEffect wraps an effect for an attempt: it encodes the result into the text to record. It
// decodes the text at once. That proves, before COMMIT, that it can be replayed, and gives the first
// caller the value that all others will get.
func recordedEffect[R any](d *Deduper, effect Effect[R], value *R) effectFunc {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		got, err := effect(ctx, tx)
		if err != nil {
			return "", byEffect(err)
		}
		return record(d, got, value)
	}
}

// record returns the text that records an effect's result, and reads it back into value.
func record[R any](d *Deduper, got R, value *R) (string, error) {
	text, err := encodeResult(got, d.opts.MaxResultBytes)
	if err != nil {
		return "", err
	}
	err = decodeResult(text, value)
	return string(text), err
}
