package mcpdedup

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/internal/door"
)

// operation is the envelope for the answers of external tools and of get_operation, and of every
// tool with Options.Envelope. The declared schema fits every status. The envelope tells the model
// what to do next, because some clients show a model only the structured content.
type operation struct {
	Status     door.State      `json:"status"`
	Operation  string          `json:"operation,omitempty"`
	Message    string          `json:"message,omitempty"`
	RetryAfter int             `json:"retryAfter,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Duplicate  *bool           `json:"duplicate,omitempty"`
	CreatedAt  string          `json:"createdAt,omitempty"`
}

// operationSchema lacks the result, whose schema is the tool's.
const operationSchema = `{"type":"object","properties":{
	"status":{"type":"string","enum":["pending","running","parked","done","refused","expired","not_found"],
		"description":"Only done has a result. running and pending have none yet. parked may have happened: do not repeat it with a new key."},
	"operation":{"type":"string","description":"Names this call. Send it to ` + getOperation + ` to ask where the call stands."},
	"message":{"type":"string","description":"What to do next."},
	"retryAfter":{"type":"integer","description":"How many seconds to wait before asking again."},
	"duplicate":{"type":"boolean","description":"Whether this is the answer of an earlier call, and nothing was done now."},
	"createdAt":{"type":"string","format":"date-time","description":"When the answer was recorded."}
	},"required":["status"]}`

// operationOf names a call. A tool's name has no "/" in MCP.
func operationOf(tool, key string) string { return tool + "/" + key }

func (o *operation) answer(meta mcp.Meta) *mcp.CallToolResult {
	if o.RetryAfter > 0 {
		meta[door.MetaRetryAfter] = o.RetryAfter
	}
	text, _ := door.JSON(o) // the parts are strings, numbers and valid JSON
	return textResult(text, meta)
}

// openOperation returns the answer to a call of an external tool that is in flight or parked, and
// nil for any other error. Neither is an error for the client: the operation goes on, or its
// outcome is unknown.
func (e *exposed) openOperation(key string, err error) *mcp.CallToolResult {
	state := door.FailureOf(e.info.RecordedAs, err).State()
	if state == "" {
		return nil
	}
	o := &operation{Operation: operationOf(e.info.Name, key)}
	o.setState(state, e.opts, "call again "+e.words(key).Same+", or ask "+getOperation+": the answer is its result")
	return o.answer(mcp.Meta{MetaKey: key})
}

// setState sets the state of an operation and the message that tells what to do next. again says
// how to ask again.
func (o *operation) setState(state door.State, opts *Options, again string) {
	o.Status, o.RetryAfter = state, door.Seconds(state.RetryAfter(opts.RetryAfter))
	wait := door.Words{RetryAfter: opts.RetryAfter}.Wait() + ", then " + again + "."
	switch state {
	case door.StatePending:
		o.Message = "It is accepted, and nothing was sent yet. " + wait
	case door.StateRunning:
		o.Message = "It is still running. " + wait
	case door.StateParked:
		o.Message = "It may have happened. Do not repeat it with a new key. Somebody is looking into it. Ask " + getOperation + " later whether it has been found out."
	case door.StateExpired:
		o.Message = "It was answered, and the answer is no longer kept. Do not repeat it. Look up what it did before doing anything else."
	case door.StateNotFound:
		o.Message = "Nothing is known of it: it has not begun, or it was so long ago that it is forgotten. To be sure, make the same call again with the same key and the same arguments."
	}
}
