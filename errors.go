package dedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// The errors with which a call can end. Find them with [errors.Is]. The type in brackets has their
// details: find it with [errors.As]. The table in the package documentation lists the functions
// that return each, and the remedy.
var (
	// ErrInFlight: a twin is running the call, and the caller's MaxWait is used up. Reset and
	// Resolve do not wait, and Erase does not wait for effects outside the database. Call again with
	// the same key.
	ErrInFlight = errors.New("dedup: a twin of this call is in flight; call again with the same key")

	// ErrOutcomeUnknown: the reply to a COMMIT was lost, and the context or the attempts ended
	// before the call could settle it. The effect may be committed. Call again with the same key.
	// [Error]
	ErrOutcomeUnknown = errors.New("dedup: outcome unknown; call again with the same key")

	// ErrAttemptsExhausted: every attempt met a transient fault, and nothing was committed. Twins
	// in one process share attempts, and so do the calls of a batch if no transaction can be
	// opened. [Error]
	ErrAttemptsExhausted = errors.New("dedup: gave up after transient faults; nothing was committed")

	// ErrRestartTx: the caller's transaction cannot continue, but a fresh one may. Its snapshot is
	// too old to see a twin's record, it is aborted, its connection is lost, or the table is
	// locked. Roll it back and run all of it again. The new run replays a twin's record, or runs
	// the effect if there is none. [Error]
	ErrRestartTx = errors.New("dedup: roll back and run the whole transaction again")

	// ErrRefused: the effect refused with [Final], and the refusal is the call's answer.
	// [RefusedError]
	ErrRefused = errors.New("dedup: the tool refused this call")

	// ErrExpired: the call was answered, and its answer has expired or was never kept. It does not
	// run again before Error.ForgetAt. If Error.Refused is true, nothing happened. [Error]
	ErrExpired = errors.New("dedup: this call was answered and its answer is not kept")

	// ErrKeyReused: an earlier call used the identity with other arguments. The call was neither
	// run nor replayed. [Error]
	ErrKeyReused = errors.New("dedup: key reused with other arguments")

	// ErrBroken: the effect ended the library's transaction, or a trigger or rule swallowed the
	// record. Part of the effect may be committed without a record. The identity is blocked until
	// [Deduper.Reset] or [Deduper.Resolve], or until it is forgotten. [Error]
	ErrBroken = errors.New("dedup: the call may have taken effect without a record")

	// ErrSchema: the tool_dedup table is missing, cannot decide races in its present state, or
	// rejects the record of this call because of a trigger, a rule, row security or another unique
	// index. Nothing is committed. migrations.Check describes the problem. [Error]
	ErrSchema = errors.New("dedup: the schema is missing or unsound")

	// ErrInvalid: the library cannot accept a call, an option, a result, or the way in which an
	// effect used its transaction. Nothing is committed, unless InvalidError.Stored is set: then
	// the call ran, and its recorded result does not fit the caller's type. The same input fails
	// again, but a limit on time need not be exceeded again, and a server may take writes again.
	// Inside an effect every function of this package but DoTx returns it. [InvalidError], except
	// for errors of the methods of the pgx.Tx that an effect gets.
	ErrInvalid = guard.ErrInvalid
)

// Error describes a call that ended without a result. Which fields are set depends on Kind.
type Error struct {
	// Kind is one of ErrOutcomeUnknown, ErrAttemptsExhausted, ErrRestartTx, ErrExpired,
	// ErrKeyReused, ErrBroken and ErrSchema. In other packages it may also be ErrInFlight.
	Kind error
	// Scope, Tool and KeyHash name the call, if the error belongs to one. KeyHash is [KeyHash] of
	// its key, because errors end up in logs.
	Scope, Tool, KeyHash string

	// CreatedAt is the time at which the call was recorded, in ErrExpired, ErrKeyReused and
	// ErrBroken. It is zero for an ErrBroken that this call caused. In ErrExpired, ExpiredAt is the
	// time at which the result expired, zero if the result was never kept, and ForgetAt the time
	// from which the identity may be used again. All are by the database's clock.
	CreatedAt, ExpiredAt, ForgetAt time.Time
	// Refused reports, in ErrExpired, that the answer was a refusal: the call had no effect.
	Refused bool
	// Changed lists, in ErrKeyReused, the top-level arguments that were added, removed or changed,
	// sorted. It is empty if the arguments are not objects, or if the first call's result expired
	// and was swept. Complete is false if there may be more changed arguments, because the object
	// has very many members or another version wrote the record.
	Changed  []string
	Complete bool
	// Attempts counts the attempts, in ErrOutcomeUnknown and ErrAttemptsExhausted. They were made
	// by this call, by a twin that it waited for, or by a call of its batch.
	Attempts int
	// Err is the fault behind the answer, or nil.
	Err error
}

// Error implements error. The text contains names of arguments but not their values.
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

// text describes the answer and the remedy.
func (e *Error) text() string {
	day := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch e.Kind {
	case ErrOutcomeUnknown:
		return fmt.Sprintf("outcome unknown after %d attempts; call again with the same key", e.Attempts)
	case ErrAttemptsExhausted:
		return fmt.Sprintf("gave up after %d attempts, nothing was committed", e.Attempts)
	case ErrExpired:
		happened, kept, next := "ran", "was not kept", "; look up its effect in the tool's own data"
		if e.Refused {
			happened, next = "was refused", " and had no effect"
		}
		if !e.ExpiredAt.IsZero() {
			kept = "expired at " + day(e.ExpiredAt)
		}
		return fmt.Sprintf("the call %s at %s and its answer %s; it is not run again%s", happened, day(e.CreatedAt), kept, next)
	case ErrKeyReused:
		what := "with other arguments"
		if len(e.Changed) > 0 { // quoted: names come from the caller, and errors go to logs
			what = fmt.Sprintf("with other values of %q", e.Changed)
		}
		return fmt.Sprintf("the key was first used at %s %s; a retry must send the first call's arguments, a new call needs a new key", day(e.CreatedAt), what)
	case ErrBroken:
		return "the call may have taken effect without a record; complete the effect, then Resolve, or undo it, then Reset"
	case nil:
		return "no answer"
	default:
		return strings.TrimPrefix(e.Kind.Error(), errorPrefix)
	}
}

// Is makes errors.Is(err, e.Kind) true.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap returns the fault behind the answer.
func (e *Error) Unwrap() error { return e.Err }

// InvalidError describes input that the library cannot accept. Every function that takes a call,
// options or arguments returns it, and every function that runs an effect.
type InvalidError struct {
	// What is the kind of input: "call", "option", "result" or "effect".
	What string
	// Field names the invalid field, such as "Scope", "Tool", "Key", "Args", "Session", "Parts",
	// "Retention", or an option. It is empty for a result and an effect.
	Field string
	// Missing reports that Field is empty or nil. It is false if Field has an invalid value.
	Missing bool
	// Reason describes the problem and the remedy. It continues a sentence that begins with Field,
	// or with What if Field is empty. It gives byte positions and lengths but never the value:
	// names, arguments and results hold personal data, and errors end up in logs.
	Reason string
	// Stored is the recorded result that does not fit the caller's type, else nil. The caller can
	// recover the result from it.
	Stored json.RawMessage
	// Err is the cause, or nil. Only the cause of an invalid effect is in Error's text as it is. A
	// cause of the others may quote a value, so the text has the names and types of it at most.
	Err error
}

// Error implements error.
func (e *InvalidError) Error() string {
	subject := e.Field
	if subject == "" {
		subject = "the " + e.What
	}
	msg := errorPrefix + "invalid " + e.What + ": " + subject + " " + e.Reason
	cause := ""
	switch {
	case e.Err == nil:
	case e.What == "effect":
		cause = e.Err.Error()
	case e.What == "result":
		cause = withoutValues(e.Err)
	}
	if cause != "" {
		msg += ": " + strings.TrimPrefix(cause, errorPrefix)
	}
	return msg
}

// withoutValues describes why a result does not fit, in names and types. It is empty for an error
// of another kind, such as that of a method of the result, which may quote values.
func withoutValues(err error) string {
	var (
		typed       *json.UnmarshalTypeError
		syntax      *json.SyntaxError
		unsupported *json.UnsupportedTypeError
		method      *json.MarshalerError
		column      pgx.ScanArgError
		nested      *InvalidError
	)
	switch {
	case errors.As(err, &nested):
		return nested.Error()
	case errors.As(err, &typed):
		kind, _, _ := strings.Cut(typed.Value, " ") // a number's value follows
		return fmt.Sprintf("a JSON %s is no %s (field %q)", kind, typed.Type, typed.Field)
	case errors.As(err, &syntax):
		return syntax.Error()
	case errors.As(err, &unsupported):
		return unsupported.Error()
	case errors.As(err, &method):
		return "json: error calling a method of " + strings.TrimPrefix(method.Type.String(), "*") // a pointer since Go 1.27
	case errors.As(err, &column):
		return fmt.Sprintf("column %d, %q", column.ColumnIndex+1, column.FieldName)
	case canon.IsOwn(err):
		return err.Error()
	}
	return ""
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns the cause, or nil.
func (e *InvalidError) Unwrap() error { return e.Err }

func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{What: "call", Field: field, Reason: fmt.Sprintf(format, args...)}
}

// missing is invalid for an empty field.
func missing(field, format string, args ...any) *InvalidError {
	err := invalid(field, format, args...)
	err.Missing = true
	return err
}

func invalidOption(option, format string, args ...any) *InvalidError {
	return &InvalidError{What: "option", Field: option, Reason: fmt.Sprintf(format, args...)}
}

// invalidResult may get the error of a tool's own marshal method.
func invalidResult(err error, format string, args ...any) *InvalidError {
	return &InvalidError{What: "result", Reason: fmt.Sprintf(format, args...), Err: hideCallErrors(err)}
}

// misused is the error of an effect that violated a rule of the guard.
func misused(err error) *InvalidError { return invalidEffect(err, "cannot be committed") }

func invalidEffect(err error, format string, args ...any) *InvalidError {
	return &InvalidError{What: "effect", Reason: fmt.Sprintf(format, args...), Err: err}
}

// tooSlow is the error of a transaction that the server ended because of a limit.
func tooSlow(err error) *InvalidError {
	return invalidEffect(err, "sent nothing for longer than Options.IdleTimeout, or took longer than the server's transaction_timeout; keep slow calls out of it, or raise the limit")
}

// readOnlyTx is the error of a read-only transaction on a server that accepts writes.
func readOnlyTx(err error) *InvalidError {
	return invalidEffect(err, "cannot be recorded: its transaction is read-only, by default_transaction_read_only or because it was set so")
}

const errorPrefix = "dedup: "

// IsRetryable reports whether another call with the same key may bring the answer. That is so if:
//
//   - a twin is in flight ([ErrInFlight])
//   - the outcome is unknown ([ErrOutcomeUnknown])
//   - a fault is transient ([IsTransient], [ErrAttemptsExhausted])
//   - the context ended
//   - the caller's transaction must run again ([ErrRestartTx])
//
// It is false for answers (refused, expired, reused) and for misuse.
func IsRetryable(err error) bool {
	answered, open := classifyAnswer(err)
	_, invalid := errors.AsType[*InvalidError](err) // of a read-only transaction, whose SQLSTATE is transient on a standby
	return !answered && (open || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || IsTransient(err) && !invalid)
}

// IsAnswer reports whether err is the call's answer, which a retry does not change: ErrRefused,
// ErrExpired, ErrKeyReused, ErrBroken, ErrInvalid, and an error with a method IsAnswer() bool that
// returns true, such as *tool.ArgumentError. It stays true if the answer wraps, or is joined with,
// a retryable error; [IsRetryable] is then false. IsAnswer is false for an effect's own error,
// which may be the answer of another call. It is false for a transaction that exceeded a limit on
// time or was read-only, because a retry runs the effect again, and for ErrSchema, which an
// operator corrects.
func IsAnswer(err error) bool {
	answered, _ := classifyAnswer(err)
	return answered && !errors.Is(err, ErrSchema)
}

// classifyAnswer looks for an answer, and for a retryable state, in err and the errors that it
// wraps. An answer takes precedence over errors that it wraps or is joined with. So does a fault on
// which Do gave up.
func classifyAnswer(err error) (answered, open bool) {
	switch typed := err.(type) {
	case *effectError: // not this call's answer: a retry runs the effect again
		_, open = classifyAnswer(typed.err)
		return false, open
	case *Error:
		open = retryable(typed.Kind)
		return !open, open
	case *RefusedError:
		return true, false
	case *finalError:
		if !IsTransient(typed.err) { // Do retries it, even if Final marks it
			return true, false
		}
	case *InvalidError:
		return !wire.IsTxTimeout(typed.Err) && !wire.IsReadOnlyTx(typed.Err), false // a limit need not be exceeded again, and a server may take writes again
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
	// The guard's other errors are not answers yet: a transient fault may have aborted the
	// transaction.
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

// matches is [errors.Is] without the errors that err wraps.
func matches(err, target error) bool {
	if err == target {
		return true
	}
	x, ok := err.(interface{ Is(error) bool })
	return ok && x.Is(target)
}

// IsTransient reports whether err is a fault of the server or the network that a fresh transaction
// may avoid. These are:
//
//   - serialization failures and deadlocks (40001, 40P01), and locks not available (55P03)
//   - too few resources (class 53, without a limit that was set)
//   - a server that shuts down, starts or fails over (57P01 to 57P05, 25006)
//   - connection faults (class 08), and failures to connect that no server refused
//   - Citus nodes that lost each other (XX000)
//   - a cached plan that does not fit after a schema change
//
// It does not tell whether a COMMIT took place; Do returns [ErrOutcomeUnknown] for that.
//
// A statement timeout (57014) and the end of a transaction that was idle or took too long (25P03,
// 25P04) are configured limits, and are not transient.
func IsTransient(err error) bool { return wire.IsTransient(err) }
