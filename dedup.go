package dedup

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
)

// Effect is what a tool does: its writes on the transaction that it is handed.
//
// It may be run more than once for one call; all its runs but one are rolled
// back. So everything that it does must go through tx, and it must not keep tx,
// or anything got from it, after it has returned. It ends the transaction by
// returning: nil commits, an error rolls back and is returned to the caller.
//
// An error that is, or wraps, the answer of another call, such as the ErrRefused of a
// DoTx inside the effect, is an error like any other: it is rolled back and not recorded.
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
// An effect that calls Do must give it the context that it was handed: the answer is
// [ErrInvalid] then. With another context nobody can see that the call is its own
// twin, and it waits for itself for as long as that context and MaxWait allow.
func Do[R any](ctx context.Context, d *Deduper, call Call, effect Effect[R]) (result Result[R], err error) {
	ctx, s := d.startCall(ctx, "Do", &call)
	defer s.span.abandon()
	if err = s.admit(ctx, d, "Do", call, effect == nil); err == nil {
		var value R
		s.call.effect = recordedEffect(d, effect, &value)
		err = s.do(ctx)
		result, err = answer(&s.call, value, err)
	}
	return result, s.end(&call, err)
}

// DoTx is Do inside the caller's transaction: effect and record are committed
// or rolled back with whatever else is in tx, and several calls can share one
// transaction. What it answers is only true once the caller has committed.
//
// It works behind a savepoint, so that an effect that fails leaves tx as it was
// before: the transaction stays usable. It makes one attempt, another one to record
// a refusal, and at most two after a conflict without a record. A twin in flight
// is waited for inside Postgres, which finds deadlocks, for at most MaxWait or
// the session's lock_timeout, whichever is shorter; then the answer is ErrInFlight and
// tx stays healthy. Whoever holds a record that may be forgotten is waited for as long
// again; then the answer is [ErrRestartTx], and ErrInFlight with ClaimFirst. A lock on the
// table itself, such as that of CREATE INDEX, is ErrRestartTx when the record is written. A negative MaxWait is 5 ms here, so that somebody who only looks is not
// taken for a twin. [ErrRestartTx] means that the whole transaction must be rolled back
// and run again. Use READ COMMITTED, and the same order of keys in every
// transaction.
//
// A refusal ([ErrRefused]) is an error and an answer: its record is in tx, and
// is only kept if the caller commits on it. Rolled back, the next call runs
// again. [Deduper.BeginFunc] makes transactions that commit on it and restart where
// ErrRestartTx asks for that.
//
// Do not call Do for the same identity before the transaction has
// ended: it would wait for itself, and nobody could see that.
func DoTx[R any](ctx context.Context, d *Deduper, tx pgx.Tx, call Call, effect Effect[R]) (result Result[R], err error) {
	ctx, s := d.startCall(ctx, "DoTx", &call)
	defer s.span.abandon()
	if err = d.check(ctx, "DoTx", call, effect == nil, &s.call); err == nil {
		err = checkTx(tx)
	}
	if err == nil && guard.InsideOwn(ctx, s.call.owner()) {
		err = errReentrant
	}
	if err == nil {
		var value R
		s.call.effect = recordedEffect(d, effect, &value)
		err = s.doTx(ctx, tx)
		result, err = answer(&s.call, value, err)
		if refused, ok := err.(*RefusedError); ok {
			refused.in = guard.ConnOf(tx)
		}
	}
	return result, s.end(&call, err)
}

// admit checks what Do and DoStatement are called with, and makes the call of it, which
// lacks its effect.
func (s *solo) admit(ctx context.Context, d *Deduper, function string, call Call, noEffect bool) error {
	if err := d.check(ctx, function, call, noEffect, &s.call); err != nil {
		return err
	}
	if guard.Inside(ctx) {
		return errNested
	}
	return nil
}

// check makes of a Call the call c, or says what is wrong with it. Nothing is sent to the
// database before this has passed.
func (d *Deduper) check(ctx context.Context, function string, asked Call, noEffect bool, c *call) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	if noEffect {
		return invalid("effect", "must not be nil")
	}
	id, err := checkIdentity(asked.Scope, asked.Tool, asked.Key)
	if err != nil {
		return err
	}
	retention, problem := asked.Retention.resolve(d.opts.Retention)
	if problem != "" {
		return invalid("Retention", "cannot be used: %s", problem)
	}
	c.d, c.function, c.began, c.out = d, function, time.Now(), table.Done
	c.Identity, c.Lock = id, id.LockKey(d.opts.Schema)
	c.Keep, c.Forget = retention.keep(), retention.forget()
	c.lookFirst = asked.LookFirst
	c.waiter.max = asked.MaxWait
	setDefault(&c.waiter.max, d.opts.MaxWait)
	c.waiter.max = min(c.waiter.max, maxWait)
	policy := asked.Errors
	setDefault(&policy, d.opts.Errors)
	if !policy.known() {
		return invalid("Errors", "has an unknown policy; use ErrorsDefault, ErrorsRollBack or ErrorsStored")
	}
	c.storeErrors = policy == ErrorsStored
	if known, ok := asked.Args.(table.Known); ok {
		c.Fingerprint, c.ArgDigests, c.known = known.Fingerprint, known.ArgDigests, known.Record
		return nil
	}
	c.Fingerprint, c.ArgDigests, err = canon.Digest(id.Scope, id.Tool, id.Key, asked.Args)
	return invalidArgs(err)
}

var (
	errNested    = &InvalidError{What: "call", Field: "ctx", Reason: "is an effect's; inside an effect use DoTx with its transaction"}
	errReentrant = &InvalidError{What: "call", Field: "ctx", Reason: "is that of this very call's effect; a call cannot make itself"}
)

// recordedEffect makes of an effect what an attempt runs: it turns the result into the
// text to record. The text is read back at once: that proves, before COMMIT, that it can
// be replayed, and gives the first caller what all others will get.
func recordedEffect[R any](d *Deduper, effect Effect[R], value *R) effectFunc {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		got, err := effect(ctx, tx)
		if err != nil {
			return "", byEffect(err)
		}
		text, err := encodeResult(got, d.opts.MaxResultBytes)
		if err != nil {
			return "", err
		}
		err = decodeResult(text, value)
		return string(text), err
	}
}

// end ends the call's span and returns the answer as its caller gets it.
func (s *solo) end(asked *Call, err error) error {
	err = errorOf(asked, err)
	s.span.end(&s.call, err)
	return err
}

// answer turns what became of a call into what its caller gets.
func answer[R any](c *call, value R, err error) (Result[R], error) {
	result := Result[R]{Waited: c.waiter.waited, Attempts: c.attempts, Recovered: c.recovered}
	if err != nil {
		return result, err
	}
	result.CreatedAt, result.ExpiresAt = c.rec.CreatedAt, c.rec.ExpiresAt
	if c.executed {
		if err := c.refusal(); err != nil {
			return result, err
		}
		result.Value = value
		return result, nil
	}

	result.Replayed = true
	if err := c.judge(&c.rec); err != nil {
		if refused, ok := err.(*RefusedError); ok {
			refused.Recovered = c.recovered
		}
		return result, err
	}
	result.Value, err = decodeStored[R](c.rec.Result)
	return result, err
}

// Refusal returns the refusal that err makes where it is wrapped by [Final], as
// Do would answer it but for a record: not recorded, and CreatedAt is zero. It is
// nil for any other error. Use it where an effect is run without Do and its
// refusals are to look as they do with it. A refusal whose details cannot be
// encoded is an [ErrInvalid] in place of the *RefusedError.
func (d *Deduper) Refusal(err error) error {
	var final *finalError
	if !errors.As(err, &final) {
		return nil
	}
	text, err := encodeRefusal(final.err, d.opts.MaxResultBytes)
	if err != nil {
		return err
	}
	return firstRefusal(text, time.Time{}, final.err)
}
