package mcpdedup

import (
	"cmp"
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// Middleware wraps existing tools of a server that were written for the SDK and stay so. For new
// tools, a registry and [AddTools] are less work.
//
//	middleware, err := mcpdedup.Middleware(d, map[string]mcpdedup.Policy{
//		"get_order":    {Class: tool.ReadOnly},
//		"refund_order": {Class: tool.Destructive, Retention: dedup.Retention{Result: 30 * 24 * time.Hour}},
//	}, &mcpdedup.Options{Scope: mcpdedup.TokenUser})
//	...
//	server.AddReceivingMiddleware(middleware)
//
// A call of a tool that writes runs the tool's handler inside [dedup.Do]. The handler writes
// through the transaction that [Tx] returns; other writes are not protected. The result is recorded
// in that transaction, and a repeat gets it. Like every effect, a handler may run more than once
// for one call; all runs but one are rolled back. A handler that answers with an error because a
// statement failed runs again if the fault may pass, such as a deadlock; see [dedup.IsTransient].
//
// A result that is an error (isError), or that asks the client for more input, rolls back and is
// not recorded. An error of the handler does too, unless [dedup.Final] wraps it: then it is
// recorded and answered as a refusal. A call of an Idempotent tool without a key has no record. It
// runs once, and its answer is the handler's own.
//
// Input that a client adds is not compared: the first completed result of a key answers all its
// calls. A handler that asks for input writes only once req.Params.InputResponses is set. If the
// client's version of MCP is older than 2026-07-28, the SDK asks inside the call and then runs the
// handler again in the same transaction. What both runs wrote is committed. The transaction is open
// while a person answers, so Options.IdleTimeout of the Deduper may end it.
//
// The list of tools shows the argument for the key and the hints of the class. A tool cannot be
// listed if it has an argument of that name. Nor can a tool whose schema refuses additional
// arguments, for instance by maxProperties or a closed part of an allOf. Then name one of the
// tool's arguments as Policy.KeyArgument, or set Options.KeysInMeta and let clients send keys in
// _meta.
//
// Name every tool, also those that only read. Any other tool is not listed and cannot be called,
// and OnError is told each time the list leaves it out. Middleware uses the options Scope,
// KeysInMeta, RetryAfter and OnError, and refuses the others. It returns a *[dedup.InvalidError] or
// a *[tool.RegistrationError], and panics if d is nil.
func Middleware(d *dedup.Deduper, tools map[string]Policy, opts *Options) (mcp.Middleware, error) {
	if d == nil {
		panic("mcpdedup: Middleware: the Deduper is nil")
	}
	checked, err := opts.checked()
	switch {
	case err != nil:
		return nil, err
	case checked.Envelope:
		return nil, refuse("Envelope", "is not for Middleware, which keeps the tools' results as they are")
	case checked.Explain != nil:
		return nil, refuse("Explain", "is not for Middleware, behind which handlers word their errors themselves")
	}
	if found := problems(d, tools); len(found) > 0 {
		return nil, &tool.RegistrationError{Problems: found}
	}
	wrapped := make(map[string]*wrappedTool, len(tools))
	for name, p := range tools {
		w := &wrappedTool{d: d, policy: p, offered: offer(tool.Info{Name: name, RecordedAs: cmp.Or(p.RecordedAs, name), Class: p.Class}, &checked)}
		if p.KeyArgument != "" {
			w.keyArgument, w.ownKey = p.KeyArgument, true
		}
		wrapped[name] = w
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch method {
			case "tools/call":
				call, ok := req.(*mcp.CallToolRequest)
				if !ok {
					return nil, fmt.Errorf("mcpdedup: tools/call with a %T", req)
				}
				w := wrapped[call.Params.Name]
				if w == nil { // even if the server has it; this is the SDK's error for unknown tools
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", call.Params.Name)}
				}
				return w.call(ctx, call, next)
			case "tools/list":
				res, err := next(ctx, method, req)
				if err != nil {
					return nil, err
				}
				return spliceList(ctx, wrapped, &checked, res)
			default:
				return next(ctx, method, req)
			}
		}
	}, nil
}
