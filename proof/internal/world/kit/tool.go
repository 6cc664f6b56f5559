// Package kit is what the tools of the replayed application have in common:
// definitions, refusals that are answers rather than failures, and amounts as
// agents write them.
package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/tool"
)

// Tool is a tool's definition, as a registry takes it, and the same function
// for who has a transaction already.
type Tool struct {
	tool.Definition
	Name  string
	Class tool.Class
	run   func(ctx context.Context, tx pgx.Tx, args json.RawMessage) (json.RawMessage, error)
}

// Func is what every tool of the application is: typed arguments in, a typed
// result out, on the transaction that it is handed.
type Func[In, Out any] func(ctx context.Context, tx pgx.Tx, in In) (Out, error)

// Define makes a Tool.
func Define[In, Out any](name string, class tool.Class, fn Func[In, Out]) Tool {
	run := func(ctx context.Context, tx pgx.Tx, args json.RawMessage) (json.RawMessage, error) {
		var in In
		decoder := json.NewDecoder(bytes.NewReader(args))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&in); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", name, err)
		}
		out, err := fn(ctx, tx, in)
		if err != nil {
			return nil, err
		}
		return Marshal(out)
	}
	return Tool{
		Definition: tool.Tool[In, Out]{Name: name, Class: class, Run: fn},
		Name:       name, Class: class, run: run,
	}
}

// Run executes the tool on a transaction of the caller's and returns the JSON of
// its result. After an error tx must be rolled back; a business answer that
// changed nothing is a *Refusal.
func (t Tool) Run(ctx context.Context, tx pgx.Tx, args json.RawMessage) (json.RawMessage, error) {
	return t.run(ctx, tx, args)
}

// Text returns what the agent is told of a result: a sentence as it is, all else
// as JSON.
func Text(result json.RawMessage) string {
	var sentence *string
	if json.Unmarshal(result, &sentence) == nil && sentence != nil {
		return *sentence
	}
	return string(result)
}

// Marshal is json.Marshal without the escapes for HTML: <, > and & are stored
// and answered as they were given.
func Marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
