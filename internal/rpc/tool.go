package rpc

import (
	"context"
	"errors"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// serveTool answers a request with a tool of the registry. Only the tool's arguments are compared,
// so that a call is the same one through every door of the registry.
func (g *Door) serveTool(ctx context.Context, m *method, r Request, inv tool.Invocation) Reply {
	inv.Tool = m.tool.Name
	if m.tool.External {
		inv.MaxWait = max(inv.MaxWait, 1) // not at all: for a negative one an external tool waits for an attempt
	}
	var err error
	if m.tool.Class != tool.ReadOnly {
		inv.Key, err = m.key(r.Message.ProtoReflect(), r.Keys)
		var missing *keyError
		if errors.As(err, &missing) && missing.code == door.KeyRequired && (len(m.tool.Key) > 0 || !m.tool.Class.NeedsKey()) {
			err = nil
		}
	}
	if err == nil {
		inv.Args, err = m.toolArgs(r.Message)
	}
	var answer tool.Answer
	if err == nil {
		answer, err = g.opts.Tools.Invoke(ctx, inv)
	}
	if err != nil {
		var refused *dedup.RefusedError
		duplicate := errors.As(err, &refused) && door.IsDuplicate(refused.Replayed, refused.Recovered)
		return Reply{Status: g.status(ctx, m, inv, err), Duplicate: duplicate}
	}
	response := m.newResponse()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(answer.JSON, response); err != nil {
		err = &dedup.InvalidError{What: "result", Reason: "of the tool is recorded, and is no JSON of " + string(m.out.FullName()), Stored: answer.JSON, Err: err}
		return Reply{Status: g.status(ctx, m, inv, err)}
	}
	return Reply{Message: response, Duplicate: door.IsDuplicate(answer.Replayed, answer.Recovered)}
}
