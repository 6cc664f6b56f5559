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
	if saysUnknown(err) {
		return true // whatever ended the attempts
	}
	// An answer stays one whatever it wraps.
	for _, answer := range [...]error{ErrRefused, ErrExpired, ErrKeyReused, ErrBroken, ErrConflict, ErrArbiter, ErrResult, ErrTxControl, ErrEffectIdle} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return errors.Is(err, ErrInFlight) || errors.Is(err, ErrOutcomeUnknown) ||
		errors.Is(err, ErrAttemptsExhausted) || errors.Is(err, ErrRestartTx) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		IsTransient(err)
}

// saysUnknown reports whether err, behind what callers wrapped around it, is an
// *[OutcomeUnknownError], and not an answer that has one as its cause.
func saysUnknown(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		switch err.(type) {
		case *OutcomeUnknownError:
			return true
		case *RefusedError, *finalError, *ResultError:
			return false
		}
	}
	return false
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
