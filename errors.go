package dedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// The answers of a call that has no result, to be found with [errors.Is]. What goes with
// one is found with [errors.As]: the type stands in brackets. The table in the package
// documentation says which function returns which, and what to do.
var (
	// ErrInFlight: a twin is running the call right now, and the caller's MaxWait has
	// passed. Call again with the same key.
	ErrInFlight = errors.New("dedup: a twin of this call is in flight; call again with the same key")

	// ErrOutcomeUnknown: the answer to a COMMIT was lost, and the context or the attempts
	// ended before the outcome could be found out. It is no failure: call again with the
	// same key. [Error]
	ErrOutcomeUnknown = errors.New("dedup: outcome unknown; call again with the same key")

	// ErrAttemptsExhausted: every attempt met a transient fault; nothing was committed.
	// Twins in one process, and the calls of a batch when no transaction can be opened,
	// share attempts. [Error]
	ErrAttemptsExhausted = errors.New("dedup: gave up after transient faults; nothing was committed")

	// ErrRestartTx: the caller's transaction cannot go on, and a fresh one may. Its snapshot is
	// too old to see a twin's record, it is aborted, its connection is lost, or the table is
	// locked. Roll it back and run the whole of it again. A twin's record is replayed then;
	// without one the effect runs. [Error]
	ErrRestartTx = errors.New("dedup: roll back and run the whole transaction again")

	// ErrRefused: the call's effect refused with [Final], and the refusal is the call's
	// answer. [RefusedError]
	ErrRefused = errors.New("dedup: the tool refused this call")

	// ErrExpired: the call ran, and its result is no longer kept. It is never run a second
	// time. [Error]
	ErrExpired = errors.New("dedup: this call ran and its result has expired")

	// ErrKeyReused: the identity was used before with other arguments; the call was neither
	// run nor replayed. [Error]
	ErrKeyReused = errors.New("dedup: key reused with other arguments")

	// ErrBroken: the effect ended the library's transaction by itself, or its record was
	// swallowed, so that part of it may be committed without a record. The identity is
	// blocked until [Deduper.Reset], or until it is forgotten. [Error]
	ErrBroken = errors.New("dedup: the call may have taken effect without a record")

	// ErrSchema: the tool_dedup table is missing, cannot decide races in the state that it
	// is in, or takes no record of this call because of a trigger, a rule, row security or
	// another unique index. Nothing is committed. migrations.Check says more. [Error]
	ErrSchema = errors.New("dedup: the schema is missing or unsound")

	// ErrInvalid: a call, an option, a result or what an effect did with its transaction
	// cannot be taken. The library commits nothing, and the same again fails in the same
	// way. [InvalidError], but for what the methods of an effect's own pgx.Tx return.
	ErrInvalid = guard.ErrInvalid
)

// Error is what goes with an answer. Which fields are filled in depends on the answer.
type Error struct {
	// Answer is one of ErrOutcomeUnknown, ErrAttemptsExhausted, ErrRestartTx, ErrExpired,
	// ErrKeyReused, ErrBroken and ErrSchema.
	Answer error
	// Scope, Tool and KeyHash name the call, where the error is that of one. KeyHash is
	// [KeyHash] of its key: errors end up in logs.
	Scope, Tool, KeyHash string

	// FirstAt is when the call was recorded, in ErrExpired, ErrKeyReused and ErrBroken;
	// zero for an ErrBroken that has just been found out. ExpiredAt is when its result
	// expired, and ForgetAt from when on its identity may be used anew, in ErrExpired.
	// All are by the database's clock.
	FirstAt, ExpiredAt, ForgetAt time.Time
	// Changed names, in ErrKeyReused, the top-level arguments that were added, removed or
	// changed, sorted. It is empty when the arguments are no objects, and once the first
	// call's result has expired and was swept. Complete is false when there may be more: a
	// very wide object, or a record written by another version.
	Changed  []string
	Complete bool
	// Attempts counts the attempts that were made, in ErrOutcomeUnknown and
	// ErrAttemptsExhausted: by this call, or by a twin that it waited for or a call of its
	// batch with which it shares them.
	Attempts int
	// Err is the fault behind the answer, or nil.
	Err error
}

// Error implements error. It names arguments, never their values.
func (e *Error) Error() string {
	text := e.text()
	if e.Tool != "" {
		text = fmt.Sprintf("tool %q: %s (key %s)", e.Tool, text, e.KeyHash)
	}
	if e.Err != nil {
		text += ": " + strings.TrimPrefix(e.Err.Error(), errorPrefix)
	}
	return errorPrefix + text
}

// text says what the answer is and what to do.
func (e *Error) text() string {
	day := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch e.Answer {
	case ErrOutcomeUnknown:
		return fmt.Sprintf("outcome unknown after %d attempts; call again with the same key", e.Attempts)
	case ErrAttemptsExhausted:
		return fmt.Sprintf("gave up after %d attempts, nothing was committed", e.Attempts)
	case ErrExpired:
		return fmt.Sprintf("the call ran at %s and its result expired at %s; it is not run again; look in the tool's own data what it did", day(e.FirstAt), day(e.ExpiredAt))
	case ErrKeyReused:
		what := "with other arguments"
		if len(e.Changed) > 0 { // quoted: names come from the caller, and errors go to logs
			what = fmt.Sprintf("with other values of %q", e.Changed)
		}
		return fmt.Sprintf("the key was first used at %s %s; a retry must send the first call's arguments, a new call needs a new key", day(e.FirstAt), what)
	case ErrBroken:
		return "the call may have taken effect without a record; look what it did, repair that, then Reset"
	case nil:
		return "no answer"
	default:
		return strings.TrimPrefix(e.Answer.Error(), errorPrefix)
	}
}

// Is makes errors.Is(err, e.Answer) true.
func (e *Error) Is(target error) bool { return target == e.Answer }

// Unwrap returns the fault behind the answer.
func (e *Error) Unwrap() error { return e.Err }

// InvalidError says what cannot be taken, and why. It is returned by every function that
// takes a call, options or arguments, and by those that run an effect.
type InvalidError struct {
	// What is at fault: "call", "option", "result" or "effect".
	What string
	// Field names the part at fault: "Scope", "Tool", "Key", "Args", "Session", "Parts",
	// "Retention", the name of an option, and so on. It is empty for a result and an effect.
	Field string
	// Missing reports that Field was not given: it is empty or nil. It is false for a Field that
	// was given and is wrong.
	Missing bool
	// Reason says what is wrong and what to do about it. It continues a sentence that begins with
	// Field, or with What if Field is empty. It gives byte positions and lengths, never the value:
	// names, arguments and results hold personal data, and errors end up in logs.
	Reason string
	// Stored is the recorded result that does not fit the caller's type, so that the caller
	// can recover it; else nil.
	Stored json.RawMessage
	// Err is the cause, if there is one. Of a call's, Error does not print it, because a
	// foreign error may quote the value.
	Err error
}

// Error implements error.
func (e *InvalidError) Error() string {
	subject := e.Field
	if subject == "" {
		subject = "the " + e.What
	}
	msg := errorPrefix + "invalid " + e.What + ": " + subject + " " + e.Reason
	if e.Err != nil && (e.What == "result" || e.What == "effect") {
		msg += ": " + strings.TrimPrefix(e.Err.Error(), errorPrefix)
	}
	return msg
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns the cause, or nil.
func (e *InvalidError) Unwrap() error { return e.Err }

func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{What: "call", Field: field, Reason: fmt.Sprintf(format, args...)}
}

// missing is invalid for a field that was not given.
func missing(field, format string, args ...any) *InvalidError {
	err := invalid(field, format, args...)
	err.Missing = true
	return err
}

func invalidOption(option, format string, args ...any) *InvalidError {
	return &InvalidError{What: "option", Field: option, Reason: fmt.Sprintf(format, args...)}
}

func invalidResult(err error, format string, args ...any) *InvalidError {
	return &InvalidError{What: "result", Reason: fmt.Sprintf(format, args...), Err: err}
}

// misused is the error of an effect whose transaction the guard has objected to.
func misused(err error) *InvalidError { return invalidEffect(err, "cannot be committed") }

func invalidEffect(err error, format string, args ...any) *InvalidError {
	return &InvalidError{What: "effect", Reason: fmt.Sprintf(format, args...), Err: err}
}

// tooSlow is the error of a transaction that the server has ended because of a limit.
func tooSlow(err error) *InvalidError {
	return invalidEffect(err, "sent nothing for longer than Options.IdleTimeout, or took longer than the server's transaction_timeout; keep slow calls out of it, or raise the limit")
}

// readOnlyTx is the error of a transaction that may not write, on a server that may.
func readOnlyTx(err error) *InvalidError {
	return invalidEffect(err, "cannot be recorded: its transaction is read-only, by default_transaction_read_only or because it was set so")
}

const errorPrefix = "dedup: "

// IsRetryable reports whether calling again with the same key may give the
// answer: the call is in flight elsewhere, its outcome is unknown, it met only
// transient faults, or its context ended too early. It is false for answers
// (refused, expired, reused) and for misuse.
func IsRetryable(err error) bool {
	answered, open := classifyAnswer(err)
	return !answered && (open || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || IsTransient(err))
}

// IsAnswer reports whether err is the call's answer, which no retry by the caller changes: ErrRefused,
// ErrExpired, ErrKeyReused, ErrBroken, ErrInvalid, and an error with a method IsAnswer() bool that
// returns true, such as *tool.ArgumentError. An answer stays one whatever it wraps or is joined with,
// and is never retryable. IsAnswer is false for an effect's own error, which a retry runs again, and
// for ErrSchema, which an operator corrects.
func IsAnswer(err error) bool {
	answered, _ := classifyAnswer(err)
	return answered && !errors.Is(err, ErrSchema)
}

// classifyAnswer looks through err and what it wraps for an answer, and for what leaves it open. An
// answer stays one whatever it wraps and whatever it is joined with, and so does a fault
// that Do has given up on.
func classifyAnswer(err error) (answered, open bool) {
	switch typed := err.(type) {
	case *effectError:
		return classifyAnswer(typed.err)
	case *Error:
		open = retryable(typed.Answer)
		return !open, open
	case *RefusedError, *finalError, *InvalidError:
		return true, false
	case interface{ IsAnswer() bool }: // of packages above this one, and of users
		if typed.IsAnswer() {
			return true, false
		}
	}
	for _, answer := range [...]error{ErrRefused, ErrExpired, ErrKeyReused, ErrBroken, ErrSchema} {
		if matches(err, answer) {
			return true, false
		}
	}
	// The guard's other verdicts are no answers yet: behind an aborted transaction may be
	// a fault that passes.
	if err == ErrInvalid || err == guard.ErrTxControl {
		return true, false
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
		a, o := classifyAnswer(err)
		answered, open = answered || a, open || o
	}
	return answered, open
}

func retryable(err error) bool {
	return matches(err, ErrInFlight) || matches(err, ErrOutcomeUnknown) || matches(err, ErrAttemptsExhausted) || matches(err, ErrRestartTx)
}

// matches is [errors.Is] of the error alone, without what it wraps.
func matches(err, target error) bool {
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
// faults (class 08, and failures to connect that no server refused), nodes of Citus that
// lost each other (XX000), and a cached plan that no longer fits after a schema change. It says
// nothing about whether a COMMIT happened; Do answers [ErrOutcomeUnknown] for that.
//
// A statement timeout (57014) and the end of a transaction that was idle or took
// too long (25P03, 25P04) are limits that somebody set, and not transient.
func IsTransient(err error) bool { return wire.IsTransient(err) }
