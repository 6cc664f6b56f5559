package mcpdedup

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// wrappedTool is a tool of a server behind [Middleware].
type wrappedTool struct {
	d      *dedup.Deduper
	policy Policy
	offered
}

type txContext struct{}

// Tx returns the transaction that a handler behind [Middleware] writes through. The second result
// is false for tools that the middleware passes on, such as ReadOnly ones.
func Tx(ctx context.Context) (pgx.Tx, bool) {
	tx, ok := ctx.Value(txContext{}).(pgx.Tx)
	return tx, ok
}

// call handles tools/call.
func (w *wrappedTool) call(ctx context.Context, req *mcp.CallToolRequest, next mcp.MethodHandler) (mcp.Result, error) {
	from, err := w.opts.caller(ctx, req)
	if err != nil {
		return complete(req.Session, w.failed(ctx, "", err)), nil
	}
	if !w.info.Class.Writes() {
		return next(ctx, "tools/call", req)
	}
	taken, err := w.take(req.Params)
	var compared json.RawMessage
	if err == nil {
		compared, err = w.compared(taken.args)
	}
	if err == nil && taken.key == "" && taken.turn.Valid() {
		taken.key, err = taken.turn.Key(w.info.RecordedAs, compared)
	}
	if err != nil {
		return complete(req.Session, w.failed(ctx, "", err)), nil
	}
	inv := tool.Invocation{
		Scope: from.Scope, Session: taken.turn.Session, Turn: taken.turn.Number, Key: taken.key, Tool: w.info.Name, Args: taken.args, MaxWait: w.policy.MaxWait,
	}
	effect := func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
		ctx = context.WithValue(ctx, door.InvocationKey{}, inv)
		return record(next(context.WithValue(ctx, txContext{}, tx), "tools/call", requestOfRun(req, taken.args)))
	}
	res, err := w.run(ctx, from.Scope, taken.key, compared, effect)
	if err == nil {
		return complete(req.Session, res), nil
	}
	if own, ok := door.HandlersError[*unrecorded](err); ok {
		return own.result, own.err // as without the middleware
	}
	return complete(req.Session, w.failed(ctx, taken.key, err)), nil
}

func (w *wrappedTool) run(ctx context.Context, scope, key string, compared json.RawMessage, effect dedup.Effect[json.RawMessage]) (*mcp.CallToolResult, error) {
	if key == "" && !w.info.Class.NeedsKey() {
		text, err := door.Once(ctx, w.d, w.info.RecordedAs, pgx.TxOptions{}, effect)
		if err != nil {
			return nil, err
		}
		return replay(text, nil)
	}
	result, err := door.DoHandler(ctx, w.d, dedup.Call{
		Scope: scope, Tool: w.info.RecordedAs, Key: key, Args: compared,
		Retention: w.policy.Retention, MaxWait: w.policy.MaxWait,
	}, effect)
	if err != nil {
		return nil, err
	}
	return replay(result.Value, recordMeta(key, door.IsDuplicate(result.Replayed, result.Recovered), result.CreatedAt))
}

// compared returns the arguments that are compared: without the key and the ignored arguments.
func (w *wrappedTool) compared(args json.RawMessage) (json.RawMessage, error) {
	ignored := w.policy.Ignored
	if w.ownKey {
		ignored = append(slices.Clip(ignored), w.keyArgument)
	}
	compared, _, err := takeMembers(door.Args(args), ignored...)
	return compared, err
}
