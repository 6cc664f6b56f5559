package dedup

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Effect runs a tool's writes on tx.
//
// It may run more than once for one call; all runs but one are rolled back. So every write must go
// through tx. The effect must not keep tx, or anything it got from tx, such as a Conn or
// LargeObjects, after it returns: these would act in another call's transaction. It ends the
// transaction by returning: nil commits, and an error rolls back and is returned to the caller.
//
// If the effect returns the error of another call, such as the ErrRefused of a DoTx inside the
// effect, that is an ordinary error. It rolls back, and is recorded only with Call.StoreErrors.
// [errors.Is] and [errors.As] do not find the other call's error in the error that the caller gets,
// so that ErrRefused, ErrKeyReused and the others always belong to the caller's own call. They do
// find ErrInvalid. [IsRetryable] considers the other call's error too. To refuse with it, wrap it
// in [Final].
type Effect[R any] func(ctx context.Context, tx pgx.Tx) (R, error)

// Do runs effect once for call's identity, in a transaction that it opens and ends. Every call of
// that identity, first, later and concurrent, gets the one recorded result.
//
// Do waits for a twin in flight without holding a connection, until MaxWait is used up or ctx ends.
// It retries transient faults and lost COMMITs in fresh transactions within Options.Retry.
// Cancelling ctx stops waiting and retrying, and cancels the effect's statements. Once COMMIT is
// sent, Do waits for the reply, for at most Options.CommitTimeout.
//
// A panic of the effect is raised again after the rollback. The table in the package documentation
// lists the errors.
//
// A Do inside an effect is refused with [ErrInvalid] if it gets the effect's context. With another
// context the library cannot detect the nesting: a call of the same identity waits for its own
// transaction until MaxWait or that context ends.
func Do[R any](ctx context.Context, d *Deduper, call Call, effect Effect[R]) (result Result[R], err error) {
	ctx, c := startCall(ctx, d, "Do", &call)
	defer c.span.abandon()
	if err = c.check(ctx, d, &call); err == nil && effect == nil {
		err = errNoEffect
	}
	if err == nil {
		var value R
		c.effect = recordedEffect(d, effect, &value)
		err = c.leadOrFollow(ctx)
		result, err = answer(c, value, err)
	}
	return result, c.end(err)
}

// recordedEffect makes an effectFunc of an effect: it encodes the result into the text to record,
// and decodes that text into value. This proves before COMMIT that the result can be replayed, and
// gives the first caller the same value as later callers.
func recordedEffect[R any](d *Deduper, effect Effect[R], value *R) effectFunc {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		got, err := effect(ctx, tx)
		if err != nil {
			return "", byEffect(err)
		}
		return encodeAndDecode(d, got, value)
	}
}

// encodeAndDecode returns the text that records the result of an effect, and decodes it into value.
func encodeAndDecode[R any](d *Deduper, got R, value *R) (string, error) {
	text, err := encodeResult(got, d.opts.MaxResultBytes)
	if err != nil {
		return "", err
	}
	err = decodeResult(text, value)
	return string(text), err
}
