package dedup

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/guard"
)

// Sentinels for states. Each is reached with [errors.Is]; where there is data
// to go with it a typed error of the same name carries it. The table in the
// package documentation says which function returns which.
var (
	// ErrInFlight: a twin is running the call right now and the caller's
	// MaxWait has passed. Call again with the same key. Returned by Do, DoTx
	// and Reset.
	ErrInFlight = errors.New("dedup: a twin of this call is in flight; call again with the same key")

	// ErrKeyReused: the identity was used before with other arguments; neither
	// run nor replayed. The error is a *KeyReusedError. Returned by Do and DoTx.
	ErrKeyReused = errors.New("dedup: key reused with other arguments")

	// ErrExpired: the call ran, and its result is no longer kept. It is never
	// run a second time. The error is an *ExpiredError. Returned by Do and DoTx.
	ErrExpired = errors.New("dedup: this call ran and its result has expired")

	// ErrRefused: the call's effect refused with [Final] and the refusal is
	// the call's answer. The error is a *RefusedError. Returned by Do and DoTx.
	ErrRefused = errors.New("dedup: the tool refused this call")

	// ErrBroken: the effect ended the library's transaction by itself, or its
	// record was swallowed, so that part of it may be committed without a record.
	// The identity is blocked until [Deduper.Reset], or until it is forgotten. The error is a *BrokenError. Returned by Do and DoTx.
	ErrBroken = errors.New("dedup: the call may have taken effect without a record")

	// ErrOutcomeUnknown: the answer to a COMMIT was lost and the context or
	// the attempts ended before the outcome could be found out. Not a failure:
	// call again with the same key. The error is an *OutcomeUnknownError.
	// Returned by Do.
	ErrOutcomeUnknown = errors.New("dedup: outcome unknown; call again with the same key")

	// ErrAttemptsExhausted: every attempt met a transient fault; nothing was
	// committed. Twins in one process, and the calls of a batch when no transaction
	// can be opened, share attempts. The error is an *AttemptsError. Returned by Do.
	ErrAttemptsExhausted = errors.New("dedup: gave up after transient faults; nothing was committed")

	// ErrConflict: writing the record violated a unique constraint although no
	// record of the identity exists: a trigger or another unique index on
	// tool_dedup. The error is a *ConflictError. Returned by Do and DoTx.
	ErrConflict = errors.New("dedup: unique violation without a record of this identity")

	// ErrArbiter: the tool_dedup table is missing, or cannot decide races in the
	// state that it is in; nothing is run. The error is an *ArbiterError.
	// Returned by Do and DoTx, before a Deduper's first call.
	ErrArbiter = errors.New("dedup: tool_dedup cannot decide races")

	// ErrRestartTx: the caller's transaction cannot go on; roll it back and run
	// the whole of it again. The error is a *RestartTxError. Returned by DoTx.
	ErrRestartTx = errors.New("dedup: roll back and run the whole transaction again")

	// ErrTxControl: a COMMIT, ROLLBACK, BEGIN or other transaction-control
	// statement was refused inside an effect. Returned by the methods of the
	// effect's pgx.Tx and then by Do and DoTx.
	ErrTxControl = guard.ErrTxControl

	// ErrTxAborted: the effect returned no error although one of its statements
	// had failed and left the transaction aborted; everything was rolled back.
	// Returned by Do and DoTx.
	ErrTxAborted = guard.ErrTxAborted

	// ErrTxBusy: the effect returned while a result set or batch of its
	// transaction was still open; everything was rolled back. Returned by Do
	// and DoTx.
	ErrTxBusy = guard.ErrTxBusy

	// ErrEffectIdle: the server ended the effect's transaction, because the effect
	// sent nothing for longer than Options.IdleTimeout (SQLSTATE 25P03), or because it
	// took longer than the server's transaction_timeout (25P04, from PostgreSQL 17 on).
	// Returned by Do and DoTx.
	ErrEffectIdle = errors.New("dedup: the effect sent nothing for longer than Options.IdleTimeout, or took longer than transaction_timeout; keep slow calls out of effects, or raise the limit")

	// ErrNested: Do was called inside an effect. Use [DoTx] with the effect's
	// transaction. Returned by Do.
	ErrNested = errors.New("dedup: Do inside an effect; use DoTx with the effect's transaction")

	// ErrReentrant: the effect of a call made the same call again. Returned by
	// DoTx.
	ErrReentrant = errors.New("dedup: a call made itself again inside its own effect")

	// ErrResult: the effect's result cannot be stored, or a stored one cannot
	// be decoded. The error is a *ResultError. Returned by Do and DoTx, and by
	// Lookup for a refusal that cannot be read.
	ErrResult = errors.New("dedup: unusable result")

	// ErrOptions: options that cannot be used. The error is an
	// *OptionsError. Returned by New, NewSweeper and Sweep.
	ErrOptions = errors.New("dedup: invalid options")
)

// KeyReusedError says that an identity was used before with other arguments.
type KeyReusedError struct {
	Scope, Tool string
	// KeyHash is [KeyHash] of the key; errors end up in logs.
	KeyHash string
	// First and Now are the fingerprints of the first call and of this one.
	First, Now Fingerprint
	// FirstAt is when the first call was recorded, by the database's clock.
	FirstAt time.Time
	// Changed names the top-level arguments that were added, removed or
	// changed, sorted. Empty when the arguments are no objects, and once the
	// first call's result has expired and was swept.
	Changed []string
	// Complete is false when there may be more than Changed names: a very wide
	// object, or a record written by another version.
	Complete bool
}

// Error implements error. It names arguments, never their values.
func (e *KeyReusedError) Error() string {
	what := "with other arguments"
	if len(e.Changed) > 0 {
		// Quoted: names come from the caller and errors go to logs.
		what = fmt.Sprintf("with other values of %q", e.Changed)
	}
	return fmt.Sprintf("dedup: key %s of tool %q was first used at %s %s; a retry must send the first call's arguments, a new call needs a new key",
		e.KeyHash, e.Tool, e.FirstAt.UTC().Format(time.RFC3339), what)
}

// Is makes errors.Is(err, ErrKeyReused) true.
func (e *KeyReusedError) Is(target error) bool { return target == ErrKeyReused }

// ExpiredError says that a call ran and that its result is gone.
type ExpiredError struct {
	Scope, Tool, KeyHash string
	// FirstAt is when the call was recorded, ExpiredAt when its result expired
	// and ForgetAt from when on its identity may be used anew. The database's
	// clock.
	FirstAt, ExpiredAt, ForgetAt time.Time
}

// Error implements error.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("dedup: key %s of tool %q ran at %s and its result expired at %s; it is not run again; look in the tool's own data what it did",
		e.KeyHash, e.Tool, e.FirstAt.UTC().Format(time.RFC3339), e.ExpiredAt.UTC().Format(time.RFC3339))
}

// Is makes errors.Is(err, ErrExpired) true.
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// BrokenError says that a call may have taken effect without a record of its
// result, and that its identity is blocked so that it is not repeated.
type BrokenError struct {
	Scope, Tool, KeyHash string
	// At is when this was recorded, by the database's clock; zero when it has
	// just been found out.
	At time.Time
	// Err is what gave it away, or why it could not be recorded; nil when it
	// was read from a record.
	Err error
}

// Error implements error.
func (e *BrokenError) Error() string {
	msg := fmt.Sprintf("dedup: key %s of tool %q may have taken effect without a record; look what it did, repair that, then Reset",
		e.KeyHash, e.Tool)
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Is makes errors.Is(err, ErrBroken) true.
func (e *BrokenError) Is(target error) bool { return target == ErrBroken }

// Unwrap returns what gave it away.
func (e *BrokenError) Unwrap() error { return e.Err }

// OutcomeUnknownError says that a COMMIT may or may not have happened.
type OutcomeUnknownError struct {
	// Attempts counts the attempts that were made.
	Attempts int
	// Err is the fault that hid the outcome.
	Err error
	// Cause is why no further attempt was made, such as the context's error.
	Cause error
	// Until is when, by the database's clock, the call can no longer be committed,
	// unless [Deduper.Lookup] says that it is in flight. Zero: that holds at once.
	// See Lookup.
	Until time.Time
}

// Error implements error.
func (e *OutcomeUnknownError) Error() string {
	msg := fmt.Sprintf("dedup: outcome unknown after %d attempts; call again with the same key: %v", e.Attempts, e.Err)
	if e.Cause != nil {
		msg += " (" + e.Cause.Error() + ")"
	}
	return msg
}

// Is makes errors.Is(err, ErrOutcomeUnknown) true.
func (e *OutcomeUnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

// Unwrap returns the fault and the reason for stopping.
func (e *OutcomeUnknownError) Unwrap() []error { return nonNil(e.Err, e.Cause) }

// AttemptsError says that every attempt met a transient fault.
type AttemptsError struct {
	// Attempts counts the attempts that were made: by this call, or by a twin that it
	// waited for or a call of its batch with which it shares them.
	Attempts int
	// Err is the last attempt's fault.
	Err error
}

// Error implements error.
func (e *AttemptsError) Error() string {
	return fmt.Sprintf("dedup: gave up after %d attempts, nothing was committed: %v", e.Attempts, e.Err)
}

// Is makes errors.Is(err, ErrAttemptsExhausted) true.
func (e *AttemptsError) Is(target error) bool { return target == ErrAttemptsExhausted }

// Unwrap returns the last fault.
func (e *AttemptsError) Unwrap() error { return e.Err }

// BatchError names the call because of which nothing of a [DoTogether] was
// committed.
type BatchError struct {
	// Index is the call's number in the slice, from 0.
	Index                int
	Scope, Tool, KeyHash string
	// Err is what DoStatement would have answered, but for a refusal: nothing is
	// recorded, so it is the error that was to be refused with.
	Err error
}

// Error implements error.
func (e *BatchError) Error() string {
	return fmt.Sprintf("dedup: call %d, key %s of tool %q: %v", e.Index, e.KeyHash, e.Tool, e.Err)
}

// Unwrap returns the call's own error.
func (e *BatchError) Unwrap() error { return e.Err }

// ConflictError says that the record of an identity cannot be written and
// cannot be found either.
type ConflictError struct {
	Scope, Tool, KeyHash string
	// Table and Constraint are what the server named; both may be empty.
	Table, Constraint string
	// Err is the server's error, nil where the insert was swallowed silently.
	Err error
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("dedup: recording key %s of tool %q conflicts with constraint %q of table %q although no such record exists: a trigger, a rule, row security or another unique index on tool_dedup",
		e.KeyHash, e.Tool, e.Constraint, e.Table)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Unwrap returns the server's error.
func (e *ConflictError) Unwrap() error { return e.Err }

// ArbiterError says that tool_dedup cannot decide races, so that no call is
// run. migrations.Check finds these conditions and more.
type ArbiterError struct {
	// Table is the table that was looked at.
	Table string
	// Problems says what is wrong with it, in words.
	Problems []string
}

// Error implements error.
func (e *ArbiterError) Error() string {
	return fmt.Sprintf("dedup: %s cannot decide races: %s; nothing is run until that is repaired (see migrations.Check)",
		e.Table, strings.Join(e.Problems, "; "))
}

// Is makes errors.Is(err, ErrArbiter) true.
func (e *ArbiterError) Is(target error) bool { return target == ErrArbiter }

// RestartTxError says that the caller's transaction is aborted or that its
// snapshot is too old to see a twin's record. Its next run will replay it.
type RestartTxError struct {
	// Err is the server's error.
	Err error
}

// Error implements error.
func (e *RestartTxError) Error() string {
	return "dedup: roll back and run the whole transaction again: " + e.Err.Error()
}

// Is makes errors.Is(err, ErrRestartTx) true.
func (e *RestartTxError) Is(target error) bool { return target == ErrRestartTx }

// Unwrap returns the server's error.
func (e *RestartTxError) Unwrap() error { return e.Err }

// ResultError says that a result cannot be stored or read.
type ResultError struct {
	// Op is "encode", "decode" or "size".
	Op string
	// Size and Max are in bytes; set when Op is "size".
	Size, Max int
	// Stored is the recorded result, set when a replay's result cannot be
	// decoded into the caller's type, so that the caller can recover it.
	Stored json.RawMessage
	// Err is the reason.
	Err error
}

// Error implements error. It never contains the result.
func (e *ResultError) Error() string {
	switch {
	case e.Op == "size":
		return fmt.Sprintf("dedup: result of %d bytes exceeds the limit of %d; return a reference instead or raise Options.MaxResultBytes", e.Size, e.Max)
	case e.Stored != nil:
		return fmt.Sprintf("dedup: the call ran, but its recorded result does not fit the caller's type: %v", e.Err)
	default:
		return fmt.Sprintf("dedup: %s result: %v", e.Op, e.Err)
	}
}

// Is makes errors.Is(err, ErrResult) true.
func (e *ResultError) Is(target error) bool { return target == ErrResult }

// Unwrap returns the reason.
func (e *ResultError) Unwrap() error { return e.Err }

// OptionsError says which option cannot be used and why.
type OptionsError struct {
	// Option is the name of the field.
	Option string
	// Reason says what is wrong and what would be right.
	Reason string
}

// Error implements error.
func (e *OptionsError) Error() string {
	return fmt.Sprintf("dedup: option %s: %s", e.Option, e.Reason)
}

// Is makes errors.Is(err, ErrOptions) true.
func (e *OptionsError) Is(target error) bool { return target == ErrOptions }

// redacts reports whether redacted takes anything away.
func redacts(err *pgconn.PgError) bool {
	return err.Detail != "" || err.Where != "" || err.InternalQuery != ""
}

// redacted returns a copy of a server error without the fields that quote
// row values: Detail carries the key in the clear.
func redacted(err *pgconn.PgError) *pgconn.PgError {
	clean := *err
	clean.Detail, clean.Where, clean.InternalQuery = "", "", ""
	return &clean
}

func nonNil(errs ...error) []error {
	kept := errs[:0]
	for _, err := range errs {
		if err != nil {
			kept = append(kept, err)
		}
	}
	return kept
}
