package door

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// Turn is the message of a model that a call comes from.
type Turn struct {
	Session string
	// Number counts the model's messages in the session, from 1.
	Number int
}

// Valid reports whether a turn names a message.
func (t Turn) Valid() bool { return t.Session != "" && t.Number >= 1 && t.Number <= math.MaxInt32 }

// Key is that of a call of a tool, by what it asks for. A door sees one call and nothing of the
// message around it, so that two equal calls of one message have one key.
func (t Turn) Key(tool string, args json.RawMessage) (string, error) {
	return dedup.KeyFromToolCallArgs(t.Session, t.Number, tool, args, 0)
}

// NamesNoCall is what is wrong with a key that dedup.UsableToolCallID does not take.
const NamesNoCall = "is null, None or the name of the tool, and names no single call"

// MaxKey is the most bytes that a key may have.
const MaxKey = 255

// InvocationKey is the key of a context's value that is the tool.Invocation of the call under way.
type InvocationKey struct{}

// Args returns a call's arguments. Nothing at all and null are an object without members: clients
// send any of the three when a tool takes no arguments.
func Args(args json.RawMessage) json.RawMessage {
	if text := bytes.TrimSpace(args); len(text) == 0 || string(text) == "null" {
		return json.RawMessage("{}")
	}
	return args
}

// Scope returns what the author's function says of a caller. Nobody is an error.
func Scope(scope string, err error) (string, error) {
	if err == nil && scope == "" {
		err = errors.New("the scope is empty")
	}
	return scope, err
}

// IsDuplicate reports whether nothing was done now. A recovered answer is that of this very call.
func IsDuplicate(replayed, recovered bool) bool { return replayed && !recovered }

// CheckRetention says, at start-up, what the Deduper would say of the first call.
func CheckRetention(d *dedup.Deduper, retention dedup.Retention) *dedup.InvalidError {
	if d == nil || d.Pool() == nil {
		return &dedup.InvalidError{What: "option", Field: "d", Reason: "must come from dedup.New"}
	}
	opts := d.Options()
	opts.Retention = retention
	_, err := dedup.New(d.Pool(), &opts)
	var invalid *dedup.InvalidError
	errors.As(err, &invalid)
	return invalid
}

// Once runs an effect that needs no key, without a record. Calls inside it are refused like those
// inside any effect: they would wait for a connection while it holds one. An effect that ends its transaction
// by itself is not prevented, only found out: what it sent after that has taken effect. Of one that
// has begun another transaction since nothing is seen.
func Once(ctx context.Context, d *dedup.Deduper, tool string, opts pgx.TxOptions, effect dedup.Effect[json.RawMessage]) (text json.RawMessage, err error) {
	conn, err := wire.Acquire(ctx, d.Pool())
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	err = wire.InTx(ctx, conn.Conn(), opts, d.Options().CommitTimeout, func(tx pgx.Tx) (err error) {
		running := guard.Enter(ctx, guard.Owner{}, tx)
		defer running.Leave()
		text, err = effect(running, tx)
		if pg := tx.Conn().PgConn(); !pg.IsClosed() && pg.TxStatus() == 'I' {
			err = &dedup.InvalidError{What: "effect", Reason: "of " + tool + " ended its own transaction, and what it sent after that has taken effect; return nil to commit, an error to roll back", Err: err}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return text, nil
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
