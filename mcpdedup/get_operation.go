package mcpdedup

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// getOperation is the name of the tool that is added for external tools.
const getOperation = "get_operation"

// operations is the tool get_operation. It reports the state of calls of external tools and runs
// nothing.
type operations struct {
	tools *tool.Registry
	offered
}

// lookup has the arguments of get_operation.
type lookup struct {
	Operation string `json:"operation" jsonschema:"The operation of that call, exactly as it was answered."`
}

func (o *operations) tool() *mcp.Tool {
	in, _ := tool.Info{In: reflect.TypeFor[lookup]()}.InputSchema()
	return &mcp.Tool{
		Name: getOperation,
		Description: "Ask what became of a call that was answered with a status and an operation. " +
			"It changes nothing. Making the same call again, with the same key and arguments, asks the same.",
		Annotations: annotations(o.info), InputSchema: in, OutputSchema: withResult(json.RawMessage(`{}`)),
	}
}

// call handles tools/call.
func (o *operations) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	inv, err := o.invocation(ctx, req)
	if err != nil {
		return o.failed(ctx, "", err), nil
	}
	var found external.Status
	if info, _ := o.tools.Lookup(inv.Tool); info.External {
		found, err = o.tools.Status(ctx, inv)
	} else {
		err = errNoOperation
	}
	var invalid *dedup.InvalidError
	if errors.As(err, &invalid) && invalid.Field == "Key" {
		err = errNoOperation
	}
	if err != nil {
		return o.failed(ctx, "", err), nil
	}
	return o.describe(inv, found).answer(mcp.Meta{MetaKey: inv.Key}), nil
}

var errNoOperation = notMade(door.ArgumentsInvalid, "The argument operation names no call of a tool that can be looked up.", nil)

// invocation returns the call that a request asks for.
func (o *operations) invocation(ctx context.Context, req *mcp.CallToolRequest) (inv tool.Invocation, err error) {
	if inv, err = o.opts.caller(ctx, req); err != nil {
		return inv, err
	}
	var in lookup
	var named bool
	err = json.Unmarshal(req.Params.Arguments, &in)
	if inv.Tool, inv.Key, named = strings.Cut(in.Operation, "/"); err != nil || !named {
		return inv, errNoOperation
	}
	return inv, nil
}

// describe returns the answer for a status.
func (o *operations) describe(inv tool.Invocation, found external.Status) *operation {
	op, state := &operation{Operation: operationOf(inv.Tool, inv.Key)}, door.StateOf(found)
	if state == door.StateBroken { // an operator has to find out
		state = door.StateParked
	}
	op.setState(state, o.opts, "ask again")
	if !found.Record.CreatedAt.IsZero() && state != door.StateParked {
		op.CreatedAt = rfc3339(found.Record.CreatedAt)
	}
	switch state {
	case door.StateDone:
		op.Result = found.Record.Result
	case door.StateRefused:
		op.Message = refusedFailure(found.Record.Refusal).text
	}
	return op
}
