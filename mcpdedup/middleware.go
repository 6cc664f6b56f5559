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

// Middleware guards the tools that a server has already. It is for those whose tools are written for
// the SDK and stay so; whoever writes new ones has less to do with a registry and [AddTools].
//
//	guard, err := mcpdedup.Middleware(d, map[string]mcpdedup.Policy{
//		"get_order":    {Class: tool.ReadOnly},
//		"refund_order": {Class: tool.Destructive, Retention: dedup.Retention{Result: 30 * 24 * time.Hour}},
//	}, &mcpdedup.Options{Scope: mcpdedup.TokenUser})
//	...
//	server.AddReceivingMiddleware(guard)
//
// A call of a tool that writes runs the tool's handler inside of [dedup.Do], and
// the handler writes through the transaction that [Tx] finds in its context: what
// goes past it is not part of the promise. The result is recorded with it, and a
// repeat gets that. A result that is an error (isError), or that asks the client
// for more input, rolls back and is not recorded, and neither is an error of the
// handler's, unless it is wrapped by [dedup.Final]: that is recorded and answered
// as a refusal. The input that a client adds is not compared: a key's first
// completed result is the answer to all of its calls. Like every effect, a handler
// may run more than once for one call, and all its runs but one are rolled back.
//
// The list of tools shows the argument for the key and the hints of the class. A tool cannot be
// listed that has an argument of that name itself, or whose schema refuses the added argument: by
// maxProperties, for one, or by an allOf with a part that is closed. Then name an argument of the
// tool's own as Policy.KeyArgument, or let clients send keys in _meta, with Options.KeysInMeta.
//
// Every tool has to be named, those that only read too: any other is not listed and cannot be
// called, and OnError is told when it would be listed. Of the options Scope,
// KeysInMeta, RetryAfter and OnError are used, and others refused.
// The error is an *[dedup.InvalidError] or a *[tool.RegistrationError].
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
	guards := make(map[string]*guard, len(tools))
	for name, p := range tools {
		g := &guard{d: d, policy: p, offered: offer(tool.Info{Name: name, RecordedAs: cmp.Or(p.RecordedAs, name), Class: p.Class}, &checked)}
		if p.KeyArgument != "" {
			g.keyArgument, g.ownKey = p.KeyArgument, true
		}
		guards[name] = g
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch method {
			case "tools/call":
				call, ok := req.(*mcp.CallToolRequest)
				if !ok {
					return nil, fmt.Errorf("mcpdedup: tools/call with a %T", req)
				}
				g := guards[call.Params.Name]
				if g == nil { // also if the server has it, as the SDK says it of any other
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", call.Params.Name)}
				}
				return g.call(ctx, call, next)
			case "tools/list":
				res, err := next(ctx, method, req)
				if err != nil {
					return nil, err
				}
				return spliceList(ctx, guards, &checked, res)
			default:
				return next(ctx, method, req)
			}
		}
	}, nil
}
