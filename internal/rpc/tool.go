package rpc

import (
	"context"
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// serveTool answers a request with a tool of the registry. Only the tool's arguments are compared,
// so that a call is the same one through every door of the registry.
func (d *Door) serveTool(ctx context.Context, m *method, r Request, inv tool.Invocation) Reply {
	inv.Tool = m.tool.Name
	if m.tool.External {
		inv.MaxWait = max(inv.MaxWait, 1) // not at all: for a negative one an external tool waits for an attempt
	}
	var err error
	if m.tool.Class != tool.ReadOnly {
		inv.Key, err = m.key(r.Message.ProtoReflect(), r.Keys, d.keyPlace)
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
		answer, err = d.opts.Tools.Invoke(ctx, inv)
	}
	if err != nil {
		var refused *dedup.RefusedError
		duplicate := errors.As(err, &refused) && door.IsDuplicate(refused.Replayed, refused.Recovered)
		return Reply{Status: d.status(ctx, m, inv, err), Duplicate: duplicate}
	}
	response, err := m.responseOf(answer.JSON)
	if err != nil {
		return Reply{Status: d.status(ctx, m, inv, err)}
	}
	return Reply{Message: response, Duplicate: door.IsDuplicate(answer.Replayed, answer.Recovered)}
}

// responseOf reads a tool's result as the JSON form of the response. Members that the message lacks
// are left out, but a result of which nothing fits is an error and no blank response.
func (m *method) responseOf(result json.RawMessage) (proto.Message, error) {
	response := m.newResponse()
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(result, response)
	if err == nil && proto.Size(response) == 0 {
		err = protojson.Unmarshal(result, m.newResponse())
	}
	if err != nil {
		return nil, &dedup.InvalidError{What: "result", Reason: "of the tool is recorded, and is not the JSON of a " + string(m.out.FullName()), Stored: result, Err: err}
	}
	return response, nil
}
