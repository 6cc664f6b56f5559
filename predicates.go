package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that decide something here.
const (
	codeUndefinedTable = "42P01"

	codeInsufficientPrivilege = "42501"

	codeDivisionByZero      = "22012"
	codeInvalidText         = "22P02"
	codeNotNullViolation    = "23502"
	codeUniqueViolation     = "23505"
	codeSerialization       = "40001"
	codeDeadlock            = "40P01"
	codeQueryCanceled       = "57014"
	codeLockNotAvailable    = "55P03"
	codeReadOnly            = "25006"
	codeIdleInTransaction   = "25P03"
	codeFeatureNotSupported = "0A000"
	codePreparedExists      = "42P05"
	codePreparedMissing     = "26000"
)

// IsRetryable tells whether calling again with the same key may give the
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

// saysUnknown tells whether err, behind what callers wrapped around it, is an
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

// IsTransient tells whether err is a server's or network's fault that a fresh
// transaction may not meet: serialization failures and deadlocks (40001,
// 40P01), locks not available (55P03), too few resources (class 53), a server
// that shuts down, starts or fails over (57P01 to 57P05, 25006), connection
// faults (class 08, and failures to connect that no server refused), and a
// cached plan that a schema change has outdated. It says nothing about whether
// a COMMIT happened; Do answers [ErrOutcomeUnknown] for that.
//
// A statement timeout (57014) and the end of an idle transaction (25P03) are
// limits that somebody set, and not transient.
func IsTransient(err error) bool {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return transientState(server)
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

func transientState(err *pgconn.PgError) bool {
	switch err.Code {
	case codeSerialization, codeDeadlock, codeLockNotAvailable, codeReadOnly:
		return true
	case codeFeatureNotSupported:
		return isStalePlan(err)
	}
	switch err.Code[:min(2, len(err.Code))] {
	case "08", "53":
		return true
	case "57":
		return len(err.Code) == 5 && err.Code[:4] == "57P0"
	}
	return false
}

// isStalePlan tells a cached plan that a schema change has outdated. The message
// is translated; the function that raised it is not.
func isStalePlan(err *pgconn.PgError) bool {
	return err.Code == codeFeatureNotSupported && err.Routine == "RevalidateCachedQuery"
}

// sqlState returns the SQLSTATE of err, "" when no server sent it.
func sqlState(err error) string {
	if err == nil {
		return ""
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// isConnectionLost tells whether err is the end of a connection that no server
// explained.
func isConnectionLost(err error) bool {
	var server *pgconn.PgError
	if errors.As(err, &server) || isContextError(err) {
		return false
	}
	var network net.Error
	return errors.Is(err, pgconn.ErrConnClosed) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// hintPooler adds to an error that a transaction pooler causes what to do.
func hintPooler(err error) error {
	if state := sqlState(err); state == codePreparedExists || state == codePreparedMissing {
		return fmt.Errorf("behind a transaction pooler that does not track prepared statements (PgBouncer before 1.21) set default_query_exec_mode to exec or cache_describe: %w", err)
	}
	return err
}

// isContextError tells whether err comes from some context, not necessarily
// the call's own.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
