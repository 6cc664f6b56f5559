package mcpdedup

import (
	"context"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// exposed is a tool of a registry, as a server offers it.
type exposed struct {
	tools *tool.Registry
	tool  *mcp.Tool
	offered
}

// build makes the MCP tool, and reports what cannot be shown.
func (e *exposed) build() (problems []tool.Problem) {
	report := func(field, reason string) {
		problems = append(problems, tool.Problem{Tool: e.info.Name, Field: field, Reason: reason})
	}
	if strings.Contains(e.info.Name, "/") {
		report("Name", `has a "/", which MCP does not take`)
	}
	in, out := e.schemas(report)
	if in == nil {
		return problems
	}
	shown, err := e.splice(in)
	switch {
	case errors.Is(err, errArgumentTaken):
		report("In."+e.keyArgument, `has the name of an argument that is added to the tool; rename it, or tag it dedup:"key" if it is the key`)
	case err != nil:
		report("In", err.Error())
	}
	e.tool = &mcp.Tool{
		Name: e.info.Name, Description: e.info.Description,
		Annotations: annotations(e.info), InputSchema: shown,
	}
	if out != nil {
		e.tool.OutputSchema = out
	}
	return problems
}

// annotations returns the hints for a class. A Write is not idempotent in the protocol's sense: its
// promise needs a key and has a time limit.
func annotations(info tool.Info) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{
		ReadOnlyHint:    info.Class == tool.ReadOnly,
		DestructiveHint: new(info.Class == tool.Destructive),
		IdempotentHint:  info.Class == tool.Idempotent,
		OpenWorldHint:   new(info.External), // any other tool has its transaction and nothing else
	}
}

// call handles tools/call.
func (e *exposed) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	inv, err := e.invocation(ctx, req)
	if err != nil {
		return e.failed(ctx, inv.Key, err), nil
	}
	answer, err := e.tools.Invoke(ctx, inv)
	if answer.Key == "" {
		answer.Key = inv.Key
	}
	if err != nil && e.info.External {
		if open := e.openOperation(answer.Key, err); open != nil {
			return open, nil
		}
	}
	if err != nil {
		return e.failed(ctx, answer.Key, err), nil
	}
	return e.result(answer), nil
}

// invocation makes an invocation of a request.
func (e *exposed) invocation(ctx context.Context, req *mcp.CallToolRequest) (inv tool.Invocation, err error) {
	if inv, err = e.opts.caller(ctx, req); err != nil {
		return inv, err
	}
	inv.Tool = e.info.Name
	if !e.info.Class.Writes() {
		inv.Args = req.Params.Arguments // a ReadOnly tool does not use a key
		return inv, nil
	}
	taken, err := e.take(req.Params)
	inv.Args, inv.Key, inv.Session, inv.Turn = taken.args, taken.key, taken.turn.Session, taken.turn.Number
	return inv, err
}

// caller returns an invocation with the scope of a request.
func (o *Options) caller(ctx context.Context, req *mcp.CallToolRequest) (inv tool.Invocation, err error) {
	if inv.Scope, err = door.Scope(o.Scope(ctx, req)); err != nil {
		err = notMade(door.Unidentified, "The server does not know on whose behalf this call is made.", err)
	}
	return inv, err
}
