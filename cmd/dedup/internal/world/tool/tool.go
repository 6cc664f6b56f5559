// Package tool is what every tool of the replayed application has in common:
// a name, a class, strictly decoded arguments, a result as text, and refusals
// that are answers rather than failures.
package tool

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/cmd/dedup/internal/recording"
)

// Name is how a call finds its tool. Both domains have tools of one name.
type Name struct {
	Domain, Tool string
}

// Tool is a named function on a transaction. Tools are values without state.
type Tool struct {
	Name  Name
	Class recording.Class
	run   func(ctx context.Context, tx pgx.Tx, args json.RawMessage) (string, error)
}

// Run executes the tool on tx and returns the text of its result: JSON for
// tools that answer with an object, a sentence for those that answer with one,
// recording.Null for none.
//
// A business answer that changes nothing comes back as a *Refusal, arguments
// that do not fit as an *ArgumentError; both before the first write. Any other
// error is of the database or of ctx, and tx must be rolled back.
func (t Tool) Run(ctx context.Context, tx pgx.Tx, args json.RawMessage) (string, error) {
	return t.run(ctx, tx, args)
}

// Answer is Run with refusals as the agent sees them: "Error: …", no error.
func (t Tool) Answer(ctx context.Context, tx pgx.Tx, args json.RawMessage) (string, error) {
	result, err := t.Run(ctx, tx, args)
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Answer(), nil
	}
	return result, err
}

// Func is the shape of an ordinary tool: typed arguments in, typed result out,
// on the transaction that it is handed.
type Func[In, Out any] func(ctx context.Context, tx pgx.Tx, in In) (Out, error)

// JSON makes a tool whose result is the JSON text of what fn returns.
func JSON[In, Out any](name Name, class recording.Class, fn Func[In, Out]) Tool {
	return build(name, class, fn, encode[Out])
}

// Text makes a tool whose result is a plain sentence; a nil text is
// recording.Null.
func Text[In any](name Name, class recording.Class, fn Func[In, *string]) Tool {
	return build(name, class, fn, func(text *string) (string, error) {
		if text == nil {
			return recording.Null, nil
		}
		return *text, nil
	})
}

func build[In, Out any](name Name, class recording.Class, fn Func[In, Out], text func(Out) (string, error)) Tool {
	run := func(ctx context.Context, tx pgx.Tx, args json.RawMessage) (string, error) {
		in, err := decode[In](args)
		if err != nil {
			return "", &ArgumentError{Name: name, Err: err}
		}
		out, err := fn(ctx, tx, in)
		if err != nil {
			return "", err
		}
		return text(out)
	}
	return Tool{Name: name, Class: class, run: run}
}

func encode[Out any](out Out) (string, error) {
	text, err := Marshal(out)
	return string(text), err
}
