package mcpdedup

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// operation is what a call of an external tool is answered with, and getOperation. Its schema
// is declared, and fits every status: what a model is to do next stands in it, because some
// clients show models nothing but the structured content.
type operation struct {
	Status     door.State      `json:"status"`
	Operation  string          `json:"operation"`
	Message    string          `json:"message,omitempty"`
	RetryAfter int             `json:"retryAfter,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Duplicate  *bool           `json:"duplicate,omitempty"`
	FirstAt    string          `json:"firstAt,omitempty"`
}

func operationSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{
			"status": {
				Type:        "string",
				Enum:        []any{door.StatePending, door.StateRunning, door.StateParked, door.StateDone, door.StateRefused, door.StateExpired, door.StateUnknown},
				Description: "Only done has a result. running and pending have none yet. parked may have happened: do not repeat it with a new key.",
			},
			"operation":  {Type: "string", Description: "Names this call. Send it to " + getOperation + " to ask what became of it."},
			"message":    {Type: "string", Description: "What to do next."},
			"retryAfter": {Type: "integer", Description: "How many seconds to wait before asking again."},
			"duplicate":  {Type: "boolean", Description: "Whether this is the answer of an earlier call, and nothing was done now."},
			"firstAt":    {Type: "string", Format: "date-time", Description: "When the answer was recorded."},
		},
		PropertyOrder: []string{"status", "operation", "message", "retryAfter", "duplicate", "firstAt"},
		Required:      []string{"status", "operation"},
	}
}

// operationOf names a call. Names of tools have no "/" in MCP.
func operationOf(tool, key string) string { return tool + "/" + key }

func (o *operation) answer(meta mcp.Meta) *mcp.CallToolResult {
	if o.RetryAfter > 0 {
		meta[door.MetaRetryAfter] = o.RetryAfter
	}
	text, _ := door.JSON(o) // its parts are strings, numbers and what was found to be JSON
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, StructuredContent: text, Meta: meta}
}

// doneOperation is the answer of an external tool with its envelope.
func (e *exposed) doneOperation(a tool.Answer) *mcp.CallToolResult {
	duplicate := door.IsDuplicate(a.Replayed, a.Recovered)
	o := &operation{Status: door.StateDone, Operation: operationOf(e.info.Name, a.Key), Result: a.JSON, Duplicate: &duplicate, FirstAt: rfc3339(a.FirstAt)}
	return o.answer(recordMeta(a.Key, duplicate, a.FirstAt))
}

// openOperation is what a call of an external tool is answered with that has no answer yet; nil for any
// other error. Neither is an error: the call goes on, or its outcome is not known.
func (e *exposed) openOperation(key string, f *failing, err error) *mcp.CallToolResult {
	state := door.FailureOf(e.info.Name, err).State()
	if state == "" {
		return nil
	}
	o := &operation{Operation: operationOf(e.info.Name, key)}
	o.stand(state, e.opts, "call again "+f.words(key).Same+", or ask "+getOperation+": the answer is its result")
	return o.answer(mcp.Meta{MetaKey: key})
}

// stand puts an operation into a state, and says what to do next. again is how to ask again.
func (o *operation) stand(state door.State, opts *Options, again string) {
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
	case door.StateUnknown:
		o.Message = "Nothing is known of it: it has not begun, or it was so long ago that it is forgotten. To be sure, make the same call again with the same key and the same arguments."
	}
}
