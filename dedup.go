package dedup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// Effect is what a tool does: its writes on the transaction that it is handed.
//
// It may be run more than once for one call; all its runs but one are rolled
// back. So everything that it does must go through tx, and it must not keep tx,
// or anything got from it, after it has returned. It ends the transaction by
// returning: nil commits, an error rolls back and is returned to the caller.
//
// An error that is, or wraps, the answer of another call, such as the ErrRefused of a
// DoTx inside the effect, is an error like any other: it is rolled back, and recorded only with ErrorsStored.
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
	ctx, c := startCall(ctx, d, "Do", &call)
	defer c.span.abandon()
	if err = c.admit(ctx, d, call); err == nil && effect == nil {
		err = errNoEffect
	}
	if err == nil {
		var value R
		c.effect = recordedEffect(d, effect, &value)
		err = c.do(ctx)
		result, err = answer(c, value, err)
	}
	return result, c.end(&call, err)
}

var errNoEffect error = &InvalidError{What: "call", Field: "effect", Reason: "must not be nil"}

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
func (c *call) end(asked *Call, err error) error {
	err = errorOf(asked, err)
	c.span.end(&c.answered, c.attempts, c.waits.all, err)
	return err
}

// answer makes the result of a call that has ended with err, or with a record. value is what its
// effect has returned.
func answer[R any](c *call, value R, err error) (Result[R], error) {
	result := Result[R]{Waited: c.waits.all, Attempts: c.attempts, Recovered: c.recovered}
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
	if err := c.judge(c.rec); err != nil {
		if refused, ok := err.(*RefusedError); ok {
			refused.Recovered = c.recovered
		}
		return result, err
	}
	result.Value, err = decodeStored[R](c.rec.Result)
	return result, err
}

// errorOf returns an error as the call answers it: with the call's names, where it is the
// library's. The effect's errors stay as they are, and so do refusals.
func errorOf(asked *Call, err error) error {
	switch own := err.(type) {
	case nil, *toolError, *RefusedError:
		return err
	case *effectError:
		return withoutAnswers(own.err)
	case *Error:
		if own.Tool == "" && validateName("Tool", asked.Tool) == nil {
			named := *own // it may be the answer of several calls
			named.Scope, named.Tool, named.KeyHash = asked.Scope, asked.Tool, KeyHash(asked.Key)
			return &named
		}
		return err
	}
	if _, typed := errors.AsType[*InvalidError](err); !typed && errors.Is(err, ErrInvalid) && !wire.IsContextError(err) && !IsTransient(err) {
		err = misused(err)
	}
	if named, ok := errors.AsType[*Error](err); ok && named.Tool != "" || validateName("Tool", asked.Tool) != nil {
		return err
	}
	return &toolError{asked.Tool, err}
}

// toolError adds the tool's name to an error of the library.
type toolError struct {
	tool string
	err  error
}

// Error implements error.
func (e *toolError) Error() string {
	return fmt.Sprintf("%stool %q: %s", errorPrefix, e.tool, strings.TrimPrefix(e.err.Error(), errorPrefix))
}

// Unwrap returns the error without the name.
func (e *toolError) Unwrap() error { return e.err }

// Refusal returns the refusal that err makes where it is wrapped by [Final], as
// Do would answer with it, but not recorded, so that CreatedAt is zero. It is
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
