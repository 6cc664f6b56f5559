package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup/internal/wire"
)

// IsRetryable reports whether calling again with the same key may give the
// answer: the call is in flight elsewhere, its outcome is unknown, it met only
// transient faults, or its context ended too early. It is false for answers
// (refused, expired, reused) and for misuse.
func IsRetryable(err error) bool {
	answered, open := weigh(err)
	return !answered && (open || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || IsTransient(err))
}

// weigh looks through err and what it wraps for an answer, and for what leaves it open. An
// answer stays one whatever it wraps and whatever it is joined with, and so does a fault
// that Do has given up on.
func weigh(err error) (answered, open bool) {
	switch own := err.(type) {
	case *Error:
		open = retryable(own.Answer)
		return !open, open
	case *RefusedError, *finalError, *InvalidError:
		return true, false
	}
	for _, answer := range [...]error{ErrRefused, ErrExpired, ErrKeyReused, ErrBroken, ErrSchema, ErrInvalid} {
		if is(err, answer) {
			return true, false
		}
	}
	open = retryable(err)
	var wrapped []error
	switch w := err.(type) {
	case interface{ Unwrap() error }:
		wrapped = []error{w.Unwrap()}
	case interface{ Unwrap() []error }:
		wrapped = w.Unwrap()
	}
	for _, err := range wrapped {
		a, o := weigh(err)
		answered, open = answered || a, open || o
	}
	return answered, open
}

func retryable(err error) bool {
	return is(err, ErrInFlight) || is(err, ErrOutcomeUnknown) || is(err, ErrAttemptsExhausted) || is(err, ErrRestartTx)
}

// is is [errors.Is] of the error itself, without what it wraps.
func is(err, target error) bool {
	if err == target {
		return true
	}
	x, ok := err.(interface{ Is(error) bool })
	return ok && x.Is(target)
}

// IsTransient reports whether err is a server's or network's fault that a fresh
// transaction may not meet: serialization failures and deadlocks (40001,
// 40P01), locks not available (55P03), too few resources (class 53), a server
// that shuts down, starts or fails over (57P01 to 57P05, 25006), connection
// faults (class 08, and failures to connect that no server refused), and a
// cached plan that no longer fits after a schema change. It says nothing about whether
// a COMMIT happened; Do answers [ErrOutcomeUnknown] for that.
//
// A statement timeout (57014) and the end of a transaction that was idle or took
// too long (25P03, 25P04) are limits that somebody set, and not transient.
func IsTransient(err error) bool { return wire.IsTransient(err) }

// hintPooler adds to an error that a transaction pooler causes what to do.
func hintPooler(err error) error {
	if state := wire.SQLState(err); state == wire.CodePreparedExists || state == wire.CodePreparedMissing {
		return fmt.Errorf("behind a transaction pooler that does not track prepared statements (PgBouncer before 1.21) set default_query_exec_mode to exec or cache_describe: %w", err)
	}
	return err
}
