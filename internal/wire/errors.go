package wire

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that the library handles.
const (
	CodeDivisionByZero        = "22012"
	CodeInvalidText           = "22P02"
	CodeNotNullViolation      = "23502"
	CodeUniqueViolation       = "23505"
	CodeReadOnly              = "25006"
	CodeIdleInTransaction     = "25P03"
	CodeTransactionTimeout    = "25P04"
	CodeTxAborted             = "25P02"
	CodePreparedMissing       = "26000"
	CodeSerialization         = "40001"
	codeCompletionUnknown     = "40003"
	CodeDeadlock              = "40P01"
	CodeInsufficientPrivilege = "42501"
	CodePreparedExists        = "42P05"
	CodeUndefinedTable        = "42P01"
	CodeLockNotAvailable      = "55P03"
	CodeQueryCanceled         = "57014"
	CodeFeatureNotSupported   = "0A000"
	codeInternal              = "XX000"
	codeProtocolViolation     = "08P01"
	codeConfiguredLimit       = "53400"
)

// SQLState returns the SQLSTATE of err, or "" if no server sent err.
func SQLState(err error) string {
	if err == nil {
		return ""
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// IsTransient reports whether err is a fault of the server or the network that a fresh transaction
// may avoid.
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
	case CodeSerialization, CodeDeadlock, CodeLockNotAvailable, CodeReadOnly:
		return true
	case CodeFeatureNotSupported:
		return isStalePlan(err)
	case codeInternal:
		return isLostNode(err)
	case codeProtocolViolation: // PostgreSQL names its routine; a pooler that lost its server does not
		return err.Routine == ""
	case codeConfiguredLimit: // such as temp_file_limit, which the next attempt exceeds too
		return false
	}
	switch err.Code[:min(2, len(err.Code))] {
	case "08", "53":
		return true
	case "57":
		return len(err.Code) == 5 && err.Code[:4] == "57P0"
	}
	return false
}

// isStalePlan reports whether a schema change made a cached plan useless. The message is
// translated; the name of the routine is not.
func isStalePlan(err *pgconn.PgError) bool {
	return err.Code == CodeFeatureNotSupported && err.Routine == "RevalidateCachedQuery"
}

// isLostNode reports whether a Citus node lost another node. The message comes from the operating
// system, and the SQLSTATE is that of any internal error, but the source file belongs to Citus
// alone.
func isLostNode(err *pgconn.PgError) bool {
	switch err.File {
	case "remote_commands.c", "remote_transaction.c", "placement_connection.c", "multi_copy.c":
		return true
	}
	return false
}

// IsReadOnlyTx reports whether a statement was refused because its transaction is read-only.
// Transactions on a standby are, too.
func IsReadOnlyTx(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == CodeReadOnly && server.Routine == "PreventCommandIfReadOnly"
}

// IsTxTimeout reports whether the server ended the session because its transaction was idle or took
// too long.
func IsTxTimeout(err error) bool {
	state := SQLState(err)
	return state == CodeIdleInTransaction || state == CodeTransactionTimeout
}

// IsConnLost reports whether a connection ended without an error from the server.
func IsConnLost(err error) bool {
	var server *pgconn.PgError
	if errors.As(err, &server) || IsContextError(err) {
		return false
	}
	var network net.Error
	return errors.Is(err, pgconn.ErrConnClosed) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// IsContextError reports whether err comes from an ended context, which may not be the call's.
func IsContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isConnectTimeout reports whether a host did not answer in time, or one of several, while a
// connection was made. If the caller's context ended, the error is the same.
func isConnectTimeout(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) && SQLState(err) == "" && errors.Is(err, context.DeadlineExceeded)
}

// connectTimeout is the error of a connect_timeout. It hides the ended context in it, which is not
// the caller's.
type connectTimeout struct{ err error }

// Error implements error.
func (e connectTimeout) Error() string { return e.err.Error() }

// Is is [errors.Is] of the error, except for the errors of contexts.
func (e connectTimeout) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

// As is [errors.As] of the error.
func (e connectTimeout) As(target any) bool { return errors.As(e.err, target) }

// IsRaised reports whether the server raised err as an ERROR and keeps the session. FATAL ends the
// session.
func IsRaised(err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	// SeverityUnlocalized is never translated. Servers before 9.6 and some poolers send only
	// Severity.
	if server.SeverityUnlocalized != "" {
		return server.SeverityUnlocalized == "ERROR"
	}
	return server.Severity == "ERROR"
}

// IsUnsent reports whether a pipeline could not be prepared, so that none of it ran.
func IsUnsent(err error) bool {
	_, ours := errors.AsType[unsent](err)
	_, pgxs := errors.AsType[pgx.ErrPreprocessingBatch](err)
	return ours || pgxs
}

// unsent is an error of arguments that cannot be encoded.
type unsent struct{ error }

// Unwrap returns the error.
func (e unsent) Unwrap() error { return e.error }
