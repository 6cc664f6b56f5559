package door

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// Turn is the message of a model that contains a call.
type Turn struct {
	Session string
	// Number counts the model's messages in the session, from 1.
	Number int
}

// Valid reports whether a turn names a message.
func (t Turn) Valid() bool { return t.Session != "" && t.Number >= 1 && t.Number <= math.MaxInt32 }

// Key returns the key of a tool call, by its arguments. A door sees one call without the rest of
// its message, so two equal calls of one message have one key.
func (t Turn) Key(tool string, args json.RawMessage) (string, error) {
	return dedup.KeyFromToolCallArgs(t.Session, t.Number, tool, args, 0)
}

// NamesNoCall is the reason for refusing a key that dedup.UsableToolCallID does not accept.
const NamesNoCall = "is null, None or the name of the tool, and names no single call"

// MaxKey is the maximum length of a key in bytes.
const MaxKey = 255

// InvocationKey is the context key of the current tool.Invocation.
type InvocationKey struct{}

// Args returns a call's arguments. Missing arguments and null become an object without members:
// clients send any of the three if a tool takes no arguments.
func Args(args json.RawMessage) json.RawMessage {
	if text := bytes.TrimSpace(args); len(text) == 0 || string(text) == "null" {
		return json.RawMessage("{}")
	}
	return args
}

// Scope returns the scope from the author's function. An empty scope is an error.
func Scope(scope string, err error) (string, error) {
	if err == nil && scope == "" {
		err = errors.New("the scope is empty")
	}
	return scope, err
}

// IsDuplicate reports whether this call had no effect. A recovered answer belongs to this call,
// which had one.
func IsDuplicate(replayed, recovered bool) bool { return replayed && !recovered }

// CheckRetention returns, at start-up, the error that the Deduper would return for the first call.
// Fields of retention that are zero are the Deduper's.
func CheckRetention(d *dedup.Deduper, retention dedup.Retention) *dedup.InvalidError {
	if d == nil || d.Pool() == nil {
		return &dedup.InvalidError{What: "option", Field: "d", Reason: "must come from dedup.New"}
	}
	opts := d.Options()
	opts.Retention = Retention(retention, opts.Retention)
	_, err := dedup.New(d.Pool(), &opts)
	var invalid *dedup.InvalidError
	errors.As(err, &invalid)
	return invalid
}

// Retention returns own, with the fields of fallback for fields that are zero.
func Retention(own, fallback dedup.Retention) dedup.Retention {
	return dedup.Retention{Result: cmp.Or(own.Result, fallback.Result), Tombstone: cmp.Or(own.Tombstone, fallback.Tombstone)}
}

// HandlersError returns the error, of type E, of a handler that ran as a call's effect. ok is false
// if the call failed with something that the handler does not know: attempts that are used up, a
// COMMIT whose reply was lost, or misuse of its transaction.
func HandlersError[E error](err error) (own E, ok bool) {
	if errors.Is(err, dedup.ErrAttemptsExhausted) || errors.Is(err, dedup.ErrOutcomeUnknown) {
		return own, false
	}
	if misuse, is := errors.AsType[*dedup.InvalidError](err); is && misuse.What == "effect" {
		return own, false
	}
	return errors.AsType[E](err)
}

// Once runs an effect without a key and without a record, on a guarded transaction as dedup.Do runs
// one. Calls inside it are refused, because they would wait for a connection while it holds one. An
// effect that misused its transaction ends with an InvalidError, which hides what it returned: a
// refusal must not cover up the misuse. Once does not detect an effect that ended its transaction
// past the guard and then began another.
func Once(ctx context.Context, d *dedup.Deduper, tool string, opts pgx.TxOptions, effect dedup.Effect[json.RawMessage]) (text json.RawMessage, err error) {
	conn, err := wire.Acquire(ctx, d.Pool())
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	err = wire.InTx(ctx, conn.Conn(), opts, d.Options().CommitTimeout, func(tx pgx.Tx) (err error) {
		running := guard.Enter(ctx, guard.Owner{}, tx)
		defer running.Leave()
		text, err = effect(running, running.Tx())
		return misused(tool, running.Check(ctx, time.Time{}, err))
	})
	if err != nil {
		return nil, err
	}
	return text, nil
}

// misused returns the error of an effect that misused its transaction as an InvalidError, without
// the error's own types. It returns any other error unchanged.
func misused(tool string, err error) error {
	reason := "cannot be committed"
	_, described := errors.AsType[*dedup.InvalidError](err)
	switch {
	case err == guard.ErrTxEnded:
		reason = "ended its own transaction, and what it sent after that has taken effect; return nil to commit, an error to roll back"
	case errors.Is(err, guard.ErrTxControl):
	case described, !errors.Is(err, guard.ErrInvalid), wire.IsContextError(err), dedup.IsTransient(err):
		return err
	}
	return &dedup.InvalidError{What: "effect", Reason: "of " + tool + " " + reason, Err: errors.New(err.Error())}
}

// JSON returns the text of a value, with <, > and & as they are.
func JSON(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
